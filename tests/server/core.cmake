ampd_library(NAME core_fixtures HDRS core_fixtures.h SRCS core_fixtures.cc DEPS server_cluster_state absl::strings)
ampd_test(NAME cluster_state SRCS cluster_state_test.cc DEPS server_core_fixtures base_error)
ampd_library(NAME job_model HDRS job_model.h SRCS job_model.cc DEPS proto_messages absl::strings)
ampd_test(NAME job_model SRCS job_model_test.cc
  DEPS server_core_fixtures server_job_model server_cluster_state absl::strings ${RAPIDCHECK_LIBRARY})
ampd_test(NAME journal SRCS journal_test.cc
  DEPS server_journal_memory server_journal_sqlite base_error base_file absl::strings)
ampd_test(NAME journal_golden SRCS journal_golden_test.cc
  DEPS server_core_fixtures server_ledger server_journal_memory base_file absl::strings)
ampd_test(NAME ledger SRCS ledger_test.cc TIMEOUT 300
  DEPS server_core_fixtures server_ledger server_journal_memory server_journal_sqlite base_error base_file base_random
       absl::strings)
ampd_long_test(NAME server_ledger ENVIRONMENT AMPD_KILLS=2000 TIMEOUT 3600
  COMMAND server_ledger_test --gtest_output=xml:${CMAKE_BINARY_DIR}/reports/server_ledger_long.xml)
ampd_library(NAME faulty_vfs HDRS faulty_vfs.h SRCS faulty_vfs.cc
  DEPS base_random absl::strings absl::synchronization SQLite::SQLite3)
ampd_test(NAME journal_faults SRCS journal_faults_test.cc TIMEOUT 600
  DEPS server_core_fixtures server_faulty_vfs server_journal_sqlite server_ledger base_error base_file base_random
       absl::strings)
ampd_test(NAME admission SRCS admission_test.cc
  DEPS server_core_fixtures server_admission base_error base_random)
ampd_test(NAME admission_exported SRCS admission_exported_test.cc
  DEPS server_core_fixtures server_admission graph_exported_gan graph_exported_net graph_exported_program base_error absl::strings)
ampd_test(NAME initial_checkpoint SRCS initial_checkpoint_test.cc
  DEPS server_core_fixtures server_initial_checkpoint base_error)
ampd_test(NAME memory_query SRCS memory_query_test.cc
  DEPS server_memory_query graph_exported_net graph_exported_program precision_memory base_error absl::strings)
ampd_test(NAME placement SRCS placement_test.cc
  DEPS server_core_fixtures server_placement server_liveness absl::strings)
ampd_test(NAME coordinator SRCS coordinator_test.cc
  DEPS server_core_fixtures server_coordinator server_journal_memory base_error base_random base_sha256 base_simulated_clock
       absl::strings)
