"""The dashboard Job: how one job trains."""
from parts import Panel, Query, annotation, build, choice, targets_of

HERE = 'job=~"$job", instance=~"$instance", tenant=~"$tenant", job_id=~"$job_id"'
GONE = "The job has no metrics. Finished jobs leave Prometheus; `ampctl job show` and `ampctl job points` have them."


def variables():
    info = 'ampd_job_info{job=~"$job", instance=~"$instance"'
    return targets_of("ampd_build_info") + [
        choice("tenant", "Tenant", f"label_values({info}}}, tenant)"),
        choice("job_id", "Job", f'label_values({info}, tenant=~"$tenant"}}, job_id)')]


def marks(family):
    """Returns an expression that has values in the minute after the time in the family changed."""
    return f"changes({family}{{{HERE}}}[1m]) > 0 or ({family}{{{HERE}}} unless {family}{{{HERE}}} offset 1m)"


def make():
    return build(
        "ampd-job", "ampd / Job", "One job: its progress, loss, loss scale, gradients, speed and memory.", variables(),
        {"Job": [
            Panel("What it is", "Name, model, precision and worker.", [Query(f"ampd_job_info{{{HERE}}}")], kind="table",
                  width=8, height=5, columns=("job_id", "name", "tenant", "queue", "model", "precision", "worker"),
                  no_value=GONE),
            Panel("State", "The state that the job is in.",
                  [Query(f"ampd_job_state{{{HERE}}}", "{{state}}")], kind="stat", width=4, height=5, no_value=GONE,
                  by_name=True),
            Panel("Progress", "Steps done, of the steps planned.",
                  [Query(f"ampd_job_steps_total{{{HERE}}} / ampd_job_steps_planned{{{HERE}}}", "{{job_id}}")],
                  unit="percentunit", kind="stat", width=4, height=5, no_value=GONE),
            Panel("Time left", "Steps that are left, at the speed of the last minutes.",
                  [Query(f"(ampd_job_steps_planned{{{HERE}}} - ampd_job_steps_total{{{HERE}}}) / "
                         f"rate(ampd_job_steps_total{{{HERE}}}[$__rate_interval])", "{{job_id}}")],
                  unit="s", kind="stat", width=4, height=5, no_value=GONE),
            Panel("Skipped steps", "Steps whose update was skipped, because gradients were not finite.",
                  [Query(f"ampd_job_skipped_steps_total{{{HERE}}}", "{{job_id}}")], kind="stat", width=4, height=5,
                  no_value=GONE)],
         "Numbers": [
            Panel("Loss", "The latest loss of training and evaluation. `ampctl job points` has every step.",
                  [Query(f"ampd_job_loss{{{HERE}}}", "{{split}} {{job_id}}")], width=12, no_value=GONE),
            Panel("Loss scale and skipped steps",
                  "The loss scale, on an axis of powers of two; bars: skipped steps in each interval.",
                  [Query(f"ampd_job_loss_scale{{{HERE}}}", "scale {{job_id}}"),
                   Query(f"increase(ampd_job_skipped_steps_total{{{HERE}}}[$__rate_interval])", "skipped {{job_id}}")],
                  width=12, log2=True, bars="skipped.*"),
            Panel("Gradient norm", "After unscaling, before clipping.",
                  [Query(f"ampd_job_grad_norm{{{HERE}}}", "{{job_id}}")]),
            Panel("Learning rate", "Of the last step.", [Query(f"ampd_job_learning_rate{{{HERE}}}", "{{job_id}}")]),
            Panel("Changes of the loss scale", "How often it grew and fell, in each hour.",
                  [Query(f"increase(ampd_job_loss_scale_changes_total{{{HERE}}}[1h])", "{{direction}} {{job_id}}")])],
         "Speed": [
            Panel("Samples per second", "Samples trained on.",
                  [Query(f"rate(ampd_job_samples_total{{{HERE}}}[$__rate_interval])", "{{job_id}}")], unit="ops"),
            Panel("Time of a step, by phase", "Where the time of each step goes.",
                  [Query(f"rate(ampd_job_step_seconds_total{{{HERE}}}[$__rate_interval]) / ignoring (phase) "
                         f"group_left () (rate(ampd_job_steps_total{{{HERE}}}[$__rate_interval]) > 0)",
                         "{{phase}} {{job_id}}")], unit="s", stacked=True),
            Panel("What holds the job up",
                  "Shares of the time: waiting for batches; tasks of its host that wait for a CPU core; the GPU idle "
                  "although the batch is there, because the host launches kernels too slowly.",
                  [Query(f"job_id:ampd_job_data_wait:ratio_rate5m{{{HERE}}}", "data {{job_id}}"),
                   Query(f"job_id:ampd_job_host_cpu_wait:ratio_rate5m{{{HERE}}}", "CPU {{job_id}}"),
                   Query(f"job_id:ampd_job_launch_bound:ratio{{{HERE}}}", "launch {{job_id}}")], unit="percentunit"),
            Panel("Model FLOPS", "Floating-point operations of the model's products, per second.",
                  [Query(f"ampd_job_model_flops_per_second{{{HERE}}}", "{{job_id}}")], unit="flops"),
            Panel("Model FLOPs utilization", "MFU: the share of the GPU's peak that the model's products use.",
                  [Query(f"ampd_job_mfu_ratio{{{HERE}}}", "{{job_id}}")], unit="percentunit"),
            Panel("GPU busy", "The share of the time in which a kernel ran on the job's GPU.",
                  [Query(f"ampd_job_device_utilization_ratio{{{HERE}}}", "{{job_id}}")],
                  unit="percentunit", maximum=1)],
         "Resources": [
            Panel("Memory", "Memory that the job's tensors take, the most that they took, and on a GPU all that the "
                  "allocator holds.",
                  [Query(f"ampd_job_memory_allocated_bytes{{{HERE}}}", "tensors {{job_id}}"),
                   Query(f"ampd_job_memory_peak_allocated_bytes{{{HERE}}}", "peak of tensors {{job_id}}"),
                   Query(f"ampd_job_memory_reserved_bytes{{{HERE}}}", "allocator {{job_id}}")], unit="bytes"),
            Panel("Allocator retries", "How often in the last hour the GPU's memory was full, and the allocator freed "
                  "what it kept.",
                  [Query(f"increase(ampd_job_allocator_retries_total{{{HERE}}}[1h])", "{{job_id}}")]),
            Panel("Power", "Power of the job's GPU, or of all CPUs of its host.",
                  [Query(f"ampd_job_power_watts{{{HERE}}}", "{{job_id}}")], unit="watt"),
            Panel("Energy", "Energy of the attempt.",
                  [Query(f"ampd_job_energy_joules_total{{{HERE}}}", "{{job_id}}")], unit="joule"),
            Panel("Energy per sample", "Of the samples of the last minutes.",
                  [Query(f"rate(ampd_job_energy_joules_total{{{HERE}}}[$__rate_interval]) / "
                         f"(rate(ampd_job_samples_total{{{HERE}}}[$__rate_interval]) > 0)", "{{job_id}}")],
                  unit="joule"),
            Panel("Size of the last checkpoint", "All files of the checkpoint.",
                  [Query(f"ampd_job_checkpoint_bytes{{{HERE}}}", "{{job_id}}")], unit="bytes"),
            Panel("Time to save the last checkpoint", "Training continues meanwhile, except for the copy in memory.",
                  [Query(f"ampd_job_checkpoint_seconds{{{HERE}}}", "{{job_id}}")], unit="s"),
            Panel("Age of the last checkpoint", "What a crash would cost now.",
                  [Query(f"time() - ampd_job_last_checkpoint_timestamp_seconds{{{HERE}}}", "{{job_id}}")], unit="s"),
            Panel("GPUs", "The GPUs that the job runs on.", [Query(f"ampd_job_gpu_info{{{HERE}}}")], kind="table",
                  columns=("job_id", "worker", "UUID"), no_value="The job runs on no GPU now.")]},
        annotations=[annotation("Skipped steps", marks("ampd_job_last_overflow_timestamp_seconds"), "red"),
                     annotation("Checkpoints", marks("ampd_job_last_checkpoint_timestamp_seconds"), "blue"),
                     annotation("Starts", marks("ampd_job_start_timestamp_seconds"), "green")],
        refresh="5s")
