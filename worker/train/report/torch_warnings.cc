#include "worker/train/report/torch_warnings.h"

#include "absl/strings/str_cat.h"
#include "worker/train/report/trainer_log.h"

namespace ampd::train {

void TorchWarnings::process(const c10::Warning& warning) {
  if (logged_.insert(warning.msg()).second) {
    LogLine(absl::StrCat("LibTorch warns: ", warning.msg()));
  }
}

}  // namespace ampd::train
