#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/amp/step/step_graph.h"

namespace ampd::train {

// Loads the functions of libampd_cuda_graph.so, which record steps in CUDA graphs, from `path`, or from the running
// program's folder if `path` is empty. The functions stay valid until the process ends. REQUIRES: libtorch_cuda.so was
// opened with RTLD_GLOBAL. FAILED_PRECONDITION (reason DEVICE_ERROR) with one line that says what is missing: the
// library, a symbol of LibTorch, or the right version of the library.
absl::StatusOr<const amp::StepGraphs*> OpenStepGraphs(const std::string& path = "");

}  // namespace ampd::train
