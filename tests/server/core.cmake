ampd_library(NAME core_fixtures HDRS core_fixtures.h SRCS core_fixtures.cc DEPS server_cluster_state absl::strings)
ampd_test(NAME cluster_state SRCS cluster_state_test.cc DEPS server_core_fixtures base_error)
