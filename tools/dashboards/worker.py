"""The dashboard Worker: the hosts and GPUs of workers."""
from parts import Panel, Query, build, targets_of

HERE = 'job=~"$job", instance=~"$instance"'
NO_GPU = "No GPU, or the worker runs with --no-gpu-metrics."


def gpu(title, description, family, unit, **more):
    return Panel(title, description, [Query(f"{family}{{{HERE}}}", "{{instance}} {{gpu}}")], unit, no_value=NO_GPU,
                 **more)


def quantiles(title, description, family, *labels):
    """A panel with the median and the 95% quantile of a histogram; with a curve for each value of the labels."""
    kept = ", ".join(("instance", *labels, "le"))
    legend = " ".join(f"{{{{{label}}}}}" for label in (*labels, "instance"))
    return Panel(title, description,
                 [Query(f"histogram_quantile({quantile}, sum by ({kept}) "
                        f"(rate({family}_bucket{{{HERE}}}[$__rate_interval])))", f"{name} {legend}")
                  for quantile, name in ((0.5, "median"), (0.95, "95%"))], "s")


def make():
    return build(
        "ampd-worker", "ampd / Worker", "Workers: their agents, hosts and GPUs.", targets_of("ampd_worker_build_info"),
        {"Agent": [
            Panel("Attempts", "Attempts of jobs that the worker has.",
                  [Query(f"ampd_worker_attempts{{{HERE}}}", "{{instance}}")], width=6),
            Panel("Lease left", "Until the lease runs out. The server renews it all the time; below 0 trainers stop.",
                  [Query(f"ampd_worker_lease_remaining_seconds{{{HERE}}}", "{{instance}}")], "s", width=6),
            Panel("Streams to the server", "Streams opened in the last hour. More than one means lost connections.",
                  [Query(f"increase(ampd_worker_streams_total{{{HERE}}}[1h])", "{{instance}}")], width=6),
            Panel("Trainers started", "Trainers started in the last hour, warm ones included.",
                  [Query(f"increase(ampd_worker_trainers_started_total{{{HERE}}}[1h])", "{{instance}}")], width=6),
            Panel("Out of memory", "Attempts of the last hour that ended because memory ran out.",
                  [Query(f"increase(ampd_worker_out_of_memory_total{{{HERE}}}[1h])", "{{instance}}")]),
            Panel("Reports and directives", "Messages to and from the server, per second.",
                  [Query(f"rate(ampd_worker_reports_total{{{HERE}}}[$__rate_interval])", "reports {{instance}}"),
                   Query(f"rate(ampd_worker_directives_total{{{HERE}}}[$__rate_interval])", "directives {{instance}}")],
                  "ops"),
            Panel("CPU of the agent", "CPU seconds per second, without trainers.",
                  [Query(f"rate(process_cpu_seconds_total{{{HERE}}}[$__rate_interval])", "{{instance}}")],
                  "percentunit"),
            Panel("Memory of the agent", "Resident memory, without trainers.",
                  [Query(f"process_resident_memory_bytes{{{HERE}}}", "{{instance}}")], "bytes")],
         "Training": [
            quantiles("Time of a step", "Of all training steps of the worker, by precision policy.",
                      "ampd_worker_step_seconds", "precision"),
            quantiles("Time to save a checkpoint", "From the copy in memory to durable files; training "
                      "continues meanwhile.", "ampd_worker_checkpoint_save_seconds")],
         "Host": [
            Panel("Pressure", "The share of the time in which a task of the host waits for the resource.",
                  [Query(f"rate(ampd_worker_pressure_seconds_total{{{HERE}}}[$__rate_interval])",
                         "{{resource}} {{instance}}")], "percentunit", maximum=1),
            Panel("Free space", "On the disks of the worker's state and checkpoints.",
                  [Query(f"ampd_worker_disk_free_bytes{{{HERE}}}", "{{folder}} {{instance}}")], "bytes"),
            Panel("Space in use", "On the disks of the worker's state and checkpoints.",
                  [Query(f"1 - ampd_worker_disk_free_bytes{{{HERE}}} / ampd_worker_disk_size_bytes{{{HERE}}}",
                         "{{folder}} {{instance}}")], "percentunit", maximum=1),
            Panel("Certificates", "Time until they expire.",
                  [Query(f"ampd_certificate_expiry_timestamp_seconds{{{HERE}}} - time()",
                         "{{certificate}} {{instance}}")], "s", no_value="The worker has no TLS.")],
         "GPUs": [
            Panel("Names", "Which worker is at which address.", [Query(f"ampd_worker_info{{{HERE}}}")], kind="table",
                  width=8, height=5, columns=("worker", "instance")),
            Panel("GPUs", "All GPUs with their drivers.", [Query(f"ampd_gpu_info{{{HERE}}}")], kind="table", width=16,
                  height=5, columns=("instance", "gpu", "name", "driver", "UUID"), no_value=NO_GPU),
            gpu("Utilization", "Share of the time in which a kernel ran.", "ampd_gpu_utilization_ratio", "percentunit",
                maximum=1),
            Panel("Memory in use", "By all processes, of all that the GPU has.",
                  [Query(f"ampd_gpu_memory_used_bytes{{{HERE}}} / ampd_gpu_memory_total_bytes{{{HERE}}}",
                         "{{instance}} {{gpu}}")], "percentunit", maximum=1, no_value=NO_GPU),
            Panel("Power", "Power that the GPU draws, and its limit.",
                  [Query(f"ampd_gpu_power_watts{{{HERE}}}", "{{instance}} {{gpu}}"),
                   Query(f"ampd_gpu_power_limit_watts{{{HERE}}}", "limit {{instance}} {{gpu}}")],
                  "watt", no_value=NO_GPU),
            Panel("Energy", "Energy of the last hour, from the GPU's own counter.",
                  [Query(f"increase(ampd_gpu_energy_joules_total{{{HERE}}}[1h])", "{{instance}} {{gpu}}")], "joule",
                  no_value=NO_GPU),
            gpu("Temperature", "Of the chip.", "ampd_gpu_temperature_celsius", "celsius"),
            gpu("Clock of the multiprocessors", "It falls if the GPU is too hot or at its limit of power.",
                "ampd_gpu_sm_clock_hertz", "hertz"),
            gpu("Clock of the memory", "It falls if the GPU is idle.", "ampd_gpu_memory_clock_hertz", "hertz"),
            Panel("Memory errors", "Errors of the GPU's memory in the last hour.",
                  [Query(f"increase(ampd_gpu_ecc_errors_total{{{HERE}}}[1h])", "{{type}} {{instance}} {{gpu}}")],
                  no_value=NO_GPU),
            Panel("Faults", "Faults (Xid) that the driver reported since the agent started. Empty if all is well.",
                  [Query(f"ampd_gpu_xid_errors_total{{{HERE}}}", "Xid {{xid}} {{instance}} {{gpu}}")],
                  no_value="No fault.")]})
