# The server's edges: metric store, hub, metrics and the program itself.
ampd_library(NAME step_columns HDRS step_columns.h SRCS step_columns.cc DEPS base_error proto_messages)
ampd_library(NAME history HDRS history.h SRCS history.cc DEPS server_step_columns proto_messages absl::strings)
ampd_library(NAME sqlite HDRS sqlite.h SRCS sqlite.cc DEPS base_error absl::statusor absl::strings SQLite::SQLite3)
ampd_library(NAME metric_store
  HDRS metric_store.h metric_writer.h metric_reader.h metric_chunk.h
  SRCS metric_store.cc metric_writer.cc metric_reader.cc metric_chunk.cc
  DEPS base_clock base_error base_status base_timed_wait server_history server_page_size server_record_bounds server_sqlite server_step_columns
       absl::strings absl::synchronization
       ${ZSTD_LIBRARY})
ampd_library(NAME artifact_store
  HDRS artifact_store.h artifact_upload.h artifact_index.h
  SRCS artifact_store.cc artifact_upload.cc artifact_sample.cc artifact_sweep.cc artifact_index.cc
  DEPS base_clock base_timed_wait base_error base_file base_pending_file base_sha256 base_status base_text proto_messages server_page_size server_sqlite
       absl::statusor absl::strings absl::synchronization absl::time)
ampd_library(NAME uploaded_models HDRS uploaded_models.h SRCS uploaded_models.cc
  DEPS base_error base_file base_status base_zip_archive graph_exported_program absl::statusor absl::strings
       absl::synchronization)
ampd_library(NAME artifact_download HDRS artifact_download.h SRCS artifact_download.cc
  DEPS base_error base_status server_artifact_store)
ampd_library(NAME telemetry_samples HDRS telemetry_samples.h SRCS telemetry_samples.cc
  DEPS base_error base_status proto_messages server_artifact_store)
ampd_library(NAME metrics_hub HDRS metrics_hub.h SRCS metrics_hub.cc
  DEPS server_history absl::synchronization)
ampd_library(NAME watch_session HDRS watch_session.h SRCS watch_session.cc
  DEPS base_clock base_error base_status server_cluster_state server_metric_store server_metrics_hub)
ampd_library(NAME log_session HDRS log_session.h SRCS log_session.cc
  DEPS base_error base_status server_cluster_state server_metric_store server_metrics_hub)
ampd_library(NAME progress HDRS progress.h SRCS progress.cc DEPS base_status server_history server_metric_store)
ampd_library(NAME work_pool HDRS work_pool.h SRCS work_pool.cc DEPS absl::synchronization)
add_subdirectory(rpc)
ampd_library(NAME call_observer HDRS call_observer.h DEPS absl::status absl::time)
ampd_library(NAME call_log HDRS call_log.h SRCS call_log.cc
  DEPS base_clock base_error base_log base_text server_call_observer absl::strings absl::synchronization)
ampd_library(NAME change_log HDRS change_log.h SRCS change_log.cc
  DEPS base_log base_wall_clock_watch proto_journal proto_messages absl::strings absl::synchronization absl::time)
ampd_library(NAME job_table HDRS job_table.h SRCS job_table.cc DEPS proto_messages server_cluster_state absl::synchronization absl::time)
ampd_library(NAME fleet_snapshot HDRS fleet_snapshot.h SRCS fleet_snapshot.cc
  DEPS models_models server_job_table server_progress absl::strings prometheus-cpp::core)
ampd_library(NAME metrics
  HDRS metrics.h fleet_collector.h SRCS metrics.cc fleet_collector.cc
  DEPS base_clock base_file base_health_checks server_call_observer server_fleet_snapshot server_job_table absl::strings prometheus-cpp::core)
ampd_library(NAME scrape_page HDRS scrape_page.h SRCS scrape_page.cc
  DEPS server_fleet_snapshot server_metrics absl::synchronization absl::time prometheus-cpp::core)
ampd_library(NAME http_routes HDRS http_routes.h SRCS http_routes.cc DEPS http_router)
ampd_library(NAME health_monitor HDRS health_monitor.h SRCS health_monitor.cc
  DEPS base_health_checks absl::status absl::strings absl::synchronization)
ampd_library(NAME data_directory HDRS data_directory.h SRCS data_directory.cc
  DEPS base_error base_file absl::status absl::statusor absl::strings)
ampd_library(NAME log_counter HDRS log_counter.h DEPS prometheus-cpp::core spdlog::spdlog)
ampd_library(NAME config HDRS server_config.h SRCS server_config.cc DEPS base_error base_status base_listen_address)
ampd_library(NAME fleet_watch HDRS fleet_watch.h SRCS fleet_watch.cc
  DEPS server_coordinator server_fleet_snapshot server_job_table server_progress proto_journal)
ampd_library(NAME server HDRS server.h SRCS server.cc
  DEPS base_clock base_error base_file base_log base_random base_status base_timed_wait server_artifact_store server_call_log server_change_log server_config server_coordinator server_fleet_watch
       server_journal_sqlite server_ledger server_metric_store server_metrics server_metrics_hub
       server_data_directory server_health_monitor server_http_routes server_progress server_scrape_page server_uploaded_models server_rpc_grpc_server
       http_listener)
ampd_binary(NAME ampd-server SRCS main.cc DEPS base_grpc_log base_log base_signals server_log_counter server_server server_config spdlog::spdlog)
