#pragma once

#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/executor/executor.h"

namespace ampd::executor {

// Finds the op of the program whose backward pass throws, and returns it as text for messages (graph::Node::Where);
// empty if none does. To find it, runs the program once more, forward and then backward from its first output, so that
// ordinary runs need no tracing. Call it after the backward pass has thrown. REQUIRES: grad mode is on.
std::string FindBackwardFault(Executor& program, std::vector<at::Tensor> inputs);

}  // namespace ampd::executor
