"""The dashboard Service: the server's API, its objective, storage and process."""
from parts import Panel, Query, build, targets_of

HERE = 'job=~"$job", instance=~"$instance"'
CALLS = "ampd_grpc_request_seconds_bucket"


def make():
    return build(
        "ampd-service", "ampd / Service", "The server: calls, service level objective, storage, process.",
        targets_of("ampd_build_info"),
        {"Objective": [
            Panel("Error budget left", "Of 30 days: how much of the 0.1% of failed calls is left.",
                  [Query(f"ampd:ampd_grpc_error_budget_left:ratio30d{{{HERE}}}", "{{instance}}")], "percentunit",
                  kind="stat", width=6),
            Panel("Burn rate", "At 1 the budget lasts 30 days. Alerts: 14.4 in an hour, 6 in six hours.",
                  [Query(f"ampd:ampd_grpc_errors_per_requests:ratio_rate5m{{{HERE}}} / 0.001", "5 minutes"),
                   Query(f"ampd:ampd_grpc_errors_per_requests:ratio_rate1h{{{HERE}}} / 0.001", "1 hour"),
                   Query(f"ampd:ampd_grpc_errors_per_requests:ratio_rate6h{{{HERE}}} / 0.001", "6 hours")],
                  width=9),
            Panel("Health", "The server's own checks: 1 is good.",
                  [Query(f"ampd_health_check{{{HERE}}}", "{{check}} {{instance}}")], width=9, maximum=1)],
         "Calls": [
            Panel("Calls per second", "Finished calls, by method.",
                  [Query(f"sum by (method) (rate(ampd_grpc_requests_total{{{HERE}}}[$__rate_interval])) > 0",
                         "{{method}}")], "reqps"),
            Panel("Errors by code", "Finished calls that did not end with OK, by code.",
                  [Query(f'sum by (code) (rate(ampd_grpc_requests_total{{code!="OK", {HERE}}}[$__rate_interval]))',
                         "{{code}}")], "reqps"),
            Panel("Time of calls", "Of unary calls.",
                  [Query(f"histogram_quantile(0.5, sum by (le) (rate({CALLS}{{{HERE}}}[$__rate_interval])))", "50%"),
                   Query(f"histogram_quantile(0.99, sum by (le) (rate({CALLS}{{{HERE}}}[$__rate_interval])))", "99%")],
                  "s"),
            Panel("Streams", "Open streams: watches, logs, workers.",
                  [Query(f"sum by (method) (ampd_grpc_streams{{{HERE}}})", "{{method}}")]),
            Panel("Connections", "Open connections of the API.",
                  [Query(f"ampd_grpc_connections{{{HERE}}}", "open {{instance}}"),
                   Query(f"increase(ampd_grpc_connections_closed_total{{{HERE}}}[$__rate_interval])",
                         "{{reason}} {{instance}}")]),
            Panel("Streamed messages", "Messages sent on streams, and points dropped for slow watchers, per second.",
                  [Query(f"sum by (method) (rate(ampd_stream_events_sent_total{{{HERE}}}[$__rate_interval]))",
                         "{{method}}"),
                   Query(f"sum by (method) (rate(ampd_stream_points_dropped_total{{{HERE}}}[$__rate_interval]))",
                         "dropped {{method}}")], "ops")],
         "State": [
            Panel("Journal", "Updates made durable, and the groups in which they were, per second.",
                  [Query(f"rate(ampd_journal_updates_total{{{HERE}}}[$__rate_interval])", "updates {{instance}}"),
                   Query(f"rate(ampd_journal_flushes_total{{{HERE}}}[$__rate_interval])", "groups {{instance}}")],
                  "ops"),
            Panel("Metric store", "99% of its operations take less.",
                  [Query("histogram_quantile(0.99, sum by (le, operation) "
                         f"(rate(ampd_store_operation_seconds_bucket{{{HERE}}}[$__rate_interval])))", "{{operation}}")],
                  "s"),
            Panel("Errors of the metric store", "In the last hour.",
                  [Query(f"increase(ampd_store_errors_total{{{HERE}}}[1h])", "{{operation}} {{instance}}")]),
            Panel("Free space", "On the disk of the data directory.",
                  [Query(f"ampd_data_disk_free_bytes{{{HERE}}}", "free {{instance}}"),
                   Query(f"ampd_data_disk_size_bytes{{{HERE}}}", "size {{instance}}")], "bytes"),
            Panel("Certificates", "Time until they expire.",
                  [Query(f"ampd_certificate_expiry_timestamp_seconds{{{HERE}}} - time()",
                         "{{certificate}} {{instance}}")], "s", no_value="The server has no TLS."),
            Panel("Cycles of the scheduler", "Per second, by what they found.",
                  [Query(f"sum by (result) (rate(ampd_scheduler_cycles_total{{{HERE}}}[$__rate_interval]))",
                         "{{result}}")], "ops"),
            Panel("Time of scheduler cycles", "99% of them take less.",
                  [Query("histogram_quantile(0.99, sum by (le) "
                         f"(rate(ampd_scheduler_cycle_seconds_bucket{{{HERE}}}[$__rate_interval])))", "99%")], "s"),
            Panel("Jobs with metrics", "Jobs that have series, and those that had none, because there are too many.",
                  [Query(f"ampd_exported_jobs{{{HERE}}}", "with {{instance}}"),
                   Query(f"increase(ampd_exported_jobs_suppressed_total{{{HERE}}}[1h])", "without {{instance}}")])],
         "Process": [
            Panel("CPU", "CPU seconds per second.",
                  [Query(f"rate(process_cpu_seconds_total{{{HERE}}}[$__rate_interval])", "{{instance}}")],
                  "percentunit"),
            Panel("Memory", "Resident memory.", [Query(f"process_resident_memory_bytes{{{HERE}}}", "{{instance}}")],
                  "bytes"),
            Panel("File descriptors", "Open ones, of those that may be open.",
                  [Query(f"process_open_fds{{{HERE}}} / process_max_fds{{{HERE}}}", "{{instance}}")], "percentunit"),
            Panel("Log messages per minute", "By level.",
                  [Query(f"sum by (level) (60 * rate(ampd_log_messages_total{{{HERE}}}[$__rate_interval]))",
                         "{{level}}")]),
            Panel("Time of a scrape", "How long the server took to render the jobs' metrics.",
                  [Query(f"ampd_collect_seconds{{{HERE}}}", "{{instance}}")], "s")]})
