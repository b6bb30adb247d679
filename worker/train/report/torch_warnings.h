#pragma once

#include <set>
#include <string>

#include "c10/util/Exception.h"

namespace ampd::train {

// While an object of this class exists, LibTorch's warnings on its thread become lines of the log. Each text is written
// once, because LibTorch repeats a warning at every call of an op, which can be each step. Single-threaded.
class TorchWarnings : public c10::WarningHandler {
 public:
  TorchWarnings() : guard_(this) {}
  TorchWarnings(const TorchWarnings&) = delete;
  TorchWarnings& operator=(const TorchWarnings&) = delete;

  void process(const c10::Warning& warning) override;

 private:
  std::set<std::string> logged_;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

}  // namespace ampd::train
