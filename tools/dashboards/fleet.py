"""The dashboard Fleet: what runs, what waits, and what fails."""
from parts import Panel, Query, build, targets_of

HERE = 'job=~"$job", instance=~"$instance"'


def make():
    return build(
        "ampd-fleet", "ampd / Fleet", "All jobs, queues and workers of a server of ampd.",
        targets_of("ampd_build_info"),
        {"Now": [
            Panel("Running", "Jobs that train now.", [Query(f'sum(ampd_jobs{{state="running", {HERE}}})')],
                  kind="stat", width=4, height=4),
            Panel("Queued", "Jobs that wait for a device.", [Query(f'sum(ampd_jobs{{state="queued", {HERE}}})')],
                  kind="stat", width=4, height=4),
            Panel("Workers", "Workers that are ready for jobs or busy with them.",
                  [Query(f'sum(ampd_workers{{state=~"ready|busy", {HERE}}})')], kind="stat", width=4, height=4),
            Panel("Workers lost", "Workers that the server does not hear.",
                  [Query(f'sum(ampd_workers{{state="lost", {HERE}}})')], kind="stat", width=4, height=4),
            Panel("Free GPUs", "GPUs that are healthy and have no job.",
                  [Query(f'sum(ampd_gpus{{state="free", {HERE}}})')], kind="stat", width=4, height=4),
            Panel("Failed, 24 hours", "Jobs that failed in the last 24 hours.",
                  [Query(f'sum(increase(ampd_jobs_finished_total{{result="failed", {HERE}}}[24h]))')],
                  kind="stat", width=4, height=4)],
         "Jobs": [
            Panel("Jobs by state", "Live jobs of all tenants and queues.",
                  [Query(f"sum by (state) (ampd_jobs{{{HERE}}})", "{{state}}")], stacked=True),
            Panel("Jobs by tenant", "Live jobs of each tenant.",
                  [Query(f"sum by (tenant) (ampd_jobs{{{HERE}}})", "{{tenant}}")], stacked=True),
            Panel("Finished jobs per hour", "Jobs that ended, by their result.",
                  [Query(f"sum by (result) (3600 * rate(ampd_jobs_finished_total{{{HERE}}}[$__rate_interval]))",
                         "{{result}}")], stacked=True),
            Panel("Wait in the queue", "From submission to the first assignment, of the jobs of the last hour.",
                  [Query("histogram_quantile(0.5, sum by (le) "
                         f"(rate(ampd_job_queue_wait_seconds_bucket{{{HERE}}}[1h])))", "half of them"),
                   Query("histogram_quantile(0.95, sum by (le) "
                         f"(rate(ampd_job_queue_wait_seconds_bucket{{{HERE}}}[1h])))", "95%")], unit="s"),
            Panel("Age of the first job in each queue", "How long the first job has waited; 0 if none waits.",
                  [Query(f"(time() - ampd_queue_oldest_job_timestamp_seconds{{{HERE}}}) * "
                         f"(ampd_queue_oldest_job_timestamp_seconds{{{HERE}}} > bool 0)", "{{tenant}}/{{queue}}")],
                  unit="s"),
            Panel("Failures by reason", "Failed jobs of the last hour, by reason.",
                  [Query(f"sum by (reason) (increase(ampd_job_failures_total{{{HERE}}}[1h]))", "{{reason}}")],
                  stacked=True),
            Panel("Attempts lost, by reason", "Attempts of the last hour whose jobs continue elsewhere.",
                  [Query(f"sum by (reason) (increase(ampd_job_requeues_total{{{HERE}}}[1h]))", "{{reason}}")],
                  stacked=True)],
         "Workers": [
            Panel("Workers by state", "All workers that the server knows.",
                  [Query(f"sum by (state) (ampd_workers{{{HERE}}})", "{{state}}")], stacked=True),
            Panel("GPUs by state", "The GPUs of all workers.",
                  [Query(f"sum by (state) (ampd_gpus{{{HERE}}})", "{{state}}")], stacked=True),
            Panel("Last report of each worker", "Seconds since the server heard each worker.",
                  [Query(f"time() - ampd_worker_last_heartbeat_timestamp_seconds{{{HERE}}}", "{{worker}}")], unit="s")],
         "Training": [
            Panel("Jobs", "All jobs that have metrics. Finished jobs leave this table; `ampctl job list` has them.",
                  [Query(f"ampd_job_info{{{HERE}}}")], kind="table", width=16, height=10,
                  columns=("job_id", "name", "tenant", "queue", "model", "precision", "worker"),
                  link="/d/ampd-job?var-job_id=${__value.text}", no_value="No job has metrics now."),
            Panel("Alerts", "Alerts that fire now or will soon. Empty if all is well.",
                  [Query('ALERTS{alertname=~"Ampd.+"}')], kind="table", width=8, height=10,
                  columns=("alertname", "alertstate", "severity", "worker", "job_id"), no_value="No alert."),
            Panel("Steps per second", "Optimizer steps of each job.",
                  [Query(f"rate(ampd_job_steps_total{{{HERE}}}[$__rate_interval])", "{{job_id}}")], unit="ops"),
            Panel("Waiting for data", "The share of each job's time in which it waits for batches.",
                  [Query(f"job_id:ampd_job_data_wait:ratio_rate5m{{{HERE}}}", "{{job_id}}")], unit="percentunit"),
            Panel("Model FLOPs utilization", "Of each job on a GPU that ampd knows.",
                  [Query(f"ampd_job_mfu_ratio{{{HERE}}}", "{{job_id}}")], unit="percentunit"),
            Panel("Power of jobs", "Of all jobs on GPUs, or on CPUs whose power is measured.",
                  [Query(f"sum(ampd_job_power_watts{{{HERE}}})", "all jobs")], unit="watt"),
            Panel("Energy of jobs", "Of each job in the last hour.",
                  [Query(f"increase(ampd_job_energy_joules_total{{{HERE}}}[1h])", "{{job_id}}")], unit="joule"),
            Panel("GPUs in use", "The share of all GPUs that have a job.",
                  [Query(f"ampd:ampd_gpus_allocated_per_gpus:ratio{{{HERE}}}", "{{instance}}")], unit="percentunit",
                  maximum=1)]})
