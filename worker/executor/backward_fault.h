#pragma once

#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/executor/executor.h"

namespace ampd::executor {

// Finds the op of the program whose backward pass throws, and returns its description for messages
// (graph::Node::Where); empty if no op throws. Runs the program once more, forward and then backward from its first
// output, so that ordinary runs need no tracing. Call it after a backward pass has thrown. REQUIRES: grad mode is on.
std::string FindBackwardFault(Executor& program, std::vector<at::Tensor> inputs);

}  // namespace ampd::executor
