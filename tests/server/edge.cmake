ampd_library(NAME history_fixtures HDRS history_fixtures.h SRCS history_fixtures.cc
  DEPS server_metric_store base_simulated_clock GTest::gtest)
ampd_test(NAME history SRCS history_test.cc DEPS server_history)
ampd_test(NAME metric_store SRCS metric_store_test.cc
  DEPS server_faulty_vfs server_history_fixtures base_error base_random absl::strings)
ampd_test(NAME artifact_store SRCS artifact_store_test.cc
  DEPS server_artifact_download server_artifact_store server_faulty_vfs server_history_fixtures base_error base_file
       base_sha256 base_simulated_clock)
ampd_test(NAME uploaded_models SRCS uploaded_models_test.cc
  DEPS server_history_fixtures server_uploaded_models graph_exported_net base_error base_file absl::strings
       absl::synchronization)
ampd_test(NAME telemetry_samples SRCS telemetry_samples_test.cc
  DEPS server_history_fixtures server_telemetry_samples base_error base_sha256 base_simulated_clock)
ampd_test(NAME watch_session SRCS watch_session_test.cc DEPS server_history_fixtures server_watch_session base_random)
ampd_test(NAME metrics SRCS metrics_test.cc
  DEPS server_history_fixtures server_log_counter server_metrics base_random)
ampd_test(NAME fleet_watch SRCS fleet_watch_test.cc
  DEPS server_fleet_watch server_scrape_page server_history_fixtures server_journal_memory server_ledger server_metrics base_random
       base_simulated_clock)
ampd_test(NAME work_pool SRCS work_pool_test.cc DEPS server_work_pool)
ampd_test(NAME server_config SRCS server_config_test.cc DEPS server_config)
ampd_library(NAME server_fixtures HDRS server_fixtures.h SRCS server_fixtures.cc
  DEPS server_history_fixtures server_server proto_services GTest::gtest)
ampd_test(NAME acceptor SRCS acceptor_test.cc DEPS http_raw_connection server_rpc_acceptor base_error absl::synchronization)
ampd_test(NAME rpc SRCS rpc_test.cc DEPS server_server_fixtures base_random)
ampd_test(NAME grpc_server SRCS grpc_server_test.cc DEPS server_server_fixtures absl::strings)
ampd_test(NAME artifact_rpc SRCS artifact_rpc_test.cc DEPS server_server_fixtures base_error base_file base_grpc_status base_sha256)
ampd_test(NAME uploaded_model_rpc SRCS uploaded_model_rpc_test.cc
  DEPS server_server_fixtures graph_exported_net base_error base_file base_grpc_status base_sha256)
ampd_test(NAME disk_full SRCS disk_full_test.cc DEPS server_server_fixtures base_error base_file base_grpc_status)
ampd_test(NAME server_binary SRCS server_binary_test.cc
  DEPS server_server_fixtures e2e_child_process http_raw_connection base_error base_file base_grpc_status server_config server_sqlite)
ampd_test(NAME metrics_page SRCS metrics_page_test.cc
  DEPS server_log_counter server_server_fixtures e2e_child_process http_raw_connection base_file absl::strings)
add_dependencies(server_metrics_page_test ampd-server)
add_dependencies(server_server_binary_test ampd-server)
