#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/amp/step/step_graph.h"

namespace ampd::train {

// The step graphs of libampd_cuda_graph.so at this path, or beside the running program where it is empty; for use until
// the process ends. REQUIRES: libtorch_cuda.so was opened with its symbols for all. FAILED_PRECONDITION (reason
// DEVICE_ERROR) with one line that says what is missing: the library, what it needs of LibTorch, or its right version.
absl::StatusOr<const amp::StepGraphs*> OpenStepGraphs(const std::string& path = "");

}  // namespace ampd::train
