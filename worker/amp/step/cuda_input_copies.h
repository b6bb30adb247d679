#pragma once

#include <memory>

#include "c10/core/Device.h"
#include "worker/amp/step/step_graph.h"

namespace ampd::amp {

// Copies inputs with a stream of their own. Part of libampd_cuda_graph.so.
std::unique_ptr<InputCopies> MakeCudaInputCopies(c10::Device device);

}  // namespace ampd::amp
