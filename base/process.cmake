ampd_library(
    NAME process HDRS process.h SRCS process.cc DEPS base_file base_error base_status absl::statusor absl::strings)
