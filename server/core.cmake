# The server's core: state, ledger, decisions. No gRPC.
add_subdirectory(journal)
ampd_library(NAME liveness HDRS liveness.h SRCS liveness.cc DEPS absl::time absl::strings)
ampd_library(NAME cluster_state
  HDRS cluster_state.h transition.h job_edit.h job_rules.h attempt_tokens.h
  SRCS cluster_state.cc transition.cc transition_files.cc transition_worker.cc job_edit.cc job_rules.cc attempt_tokens.cc
  DEPS base_error base_sha256 base_status proto_journal absl::strings absl::time)
ampd_library(NAME page_size HDRS page_budget.h page_size.h DEPS base_error absl::statusor absl::strings)
ampd_library(NAME record_bounds HDRS record_bounds.h SRCS record_bounds.cc
  DEPS base_error base_text proto_messages absl::status absl::strings)
ampd_library(NAME unknown_fields HDRS unknown_fields.h SRCS unknown_fields.cc
  DEPS base_error absl::status absl::strings protobuf::libprotobuf)
ampd_library(NAME retention HDRS retention.h SRCS retention.cc DEPS server_cluster_state proto_messages absl::time)
ampd_library(NAME ledger HDRS ledger.h SRCS ledger.cc
  DEPS server_cluster_state server_journal_journal base_error base_log base_status absl::synchronization)
ampd_library(NAME admission HDRS admission.h admission_findings.h
  SRCS admission.cc admission_arrays.cc admission_batch.cc admission_exported.cc admission_model.cc admission_sample.cc admission_training.cc
  DEPS base_error base_status base_text graph_batch_rules graph_exported_program graph_heads graph_import graph_losses graph_segments graph_vocabulary
       models_exported models_models precision_bans precision_policy proto_messages absl::statusor absl::strings)
ampd_library(NAME initial_checkpoint HDRS initial_checkpoint.h SRCS initial_checkpoint.cc
  DEPS base_error base_glob base_status base_tensor_misfits graph_graph models_models server_cluster_state proto_messages
       absl::statusor absl::strings)
ampd_library(NAME memory_query HDRS memory_query.h SRCS memory_query.cc
  DEPS server_admission graph_exported_program graph_import models_exported models_models precision_example_device
       precision_memory precision_policy base_error
       base_status proto_messages absl::statusor)
ampd_library(NAME policy_query HDRS policy_query.h SRCS policy_query.cc
  DEPS server_admission server_page_size graph_exported_program graph_losses models_models precision_example_device precision_policy base_status proto_messages
       absl::statusor)
ampd_library(NAME report_checks HDRS report_checks.h SRCS report_checks.cc
  DEPS base_error base_worker_name proto_journal proto_messages absl::status absl::strings)
ampd_library(NAME placement HDRS placement.h SRCS placement.cc
  DEPS precision_policy server_cluster_state proto_messages absl::strings absl::time)
ampd_library(NAME coordinator HDRS coordinator.h coordinator_options.h worker_session.h
  SRCS coordinator.cc coordinator_admin.cc coordinator_directives.cc coordinator_lists.cc coordinator_queries.cc coordinator_retention.cc coordinator_start.cc coordinator_submit.cc coordinator_workers.cc coordinator_time.cc
  DEPS server_page_size base_clock base_error base_random base_sha256 base_status base_text base_wall_clock_watch server_admission server_initial_checkpoint
       server_ledger server_liveness server_placement server_record_bounds server_retention server_report_checks server_unknown_fields proto_messages absl::strings absl::synchronization)

# The simulation runs these millions of times.
ampd_optimize(server_cluster_state server_ledger server_admission server_placement server_coordinator
  server_journal_memory)
