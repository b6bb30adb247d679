#include "worker/train/report/step_log.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/io/file.h"

namespace ampd::train {

absl::StatusOr<StepLog> StepLog::Open(const std::string& path) {
  StepLog log;
  log.file_.reset(std::fopen(path.c_str(), "ae"));
  if (log.file_ == nullptr) {
    return ErrnoError(errno, "cannot open the step log");
  }
  return log;
}

void StepLog::Started(absl::Duration at, const std::string& job_id, int attempt, int64_t step) {
  if (file_ == nullptr) {
    return;
  }
  const std::string line = absl::StrCat(absl::ToInt64Nanoseconds(at), " ", job_id, " ", attempt, " ", step, "\n");
  std::fputs(line.c_str(), file_.get());
  std::fflush(file_.get());
}

}  // namespace ampd::train
