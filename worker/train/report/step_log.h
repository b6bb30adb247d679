#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ampd::train {

// Writes a line for every step that was started, so that tests can check when an attempt computed: "<boottime
// nanoseconds> <job> <attempt> <step>". Does nothing unless it was opened. Thread-compatible.
class StepLog {
 public:
  StepLog() = default;
  // Appends to `path`.
  static absl::StatusOr<StepLog> Open(const std::string& path);

  // `at`: the time since boot (SinceBoot) at which the lease was known to be valid, just before the step began.
  void Started(absl::Duration at, const std::string& job_id, int attempt, int64_t step);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace ampd::train
