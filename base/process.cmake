ampd_library(
    NAME process HDRS process.h SRCS process.cc DEPS base_file base_error base_status absl::statusor absl::strings)
ampd_library(NAME child_reaper HDRS child_reaper.h SRCS child_reaper.cc DEPS base_file base_process)
