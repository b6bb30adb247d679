# The server's core: state, ledger, decisions. No gRPC.
add_subdirectory(journal)
ampd_library(NAME liveness HDRS liveness.h SRCS liveness.cc DEPS absl::time absl::strings)
ampd_library(NAME cluster_state
  HDRS cluster_state.h transition.h job_edit.h job_rules.h attempt_tokens.h
  SRCS cluster_state.cc transition.cc transition_worker.cc job_edit.cc job_rules.cc attempt_tokens.cc
  DEPS base_error base_status proto_journal absl::strings absl::time)
ampd_library(NAME ledger HDRS ledger.h SRCS ledger.cc
  DEPS server_cluster_state server_journal_journal base_error base_status absl::synchronization)
