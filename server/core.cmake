# The server's core: state, ledger, decisions. No gRPC.
add_subdirectory(journal)
ampd_library(NAME liveness HDRS liveness.h SRCS liveness.cc DEPS absl::time absl::strings)
