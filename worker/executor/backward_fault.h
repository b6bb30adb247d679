#pragma once

#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/executor/executor.h"

namespace ampd::executor {

// The op of the program whose backward pass throws, for messages (graph::Node::Where); empty where none does. Runs the
// program forward and backward again, from its first output, so that the caller's own runs need not keep track. It is
// for a program whose backward pass has thrown. REQUIRES: autograd records.
std::string FindBackwardFault(Executor& program, std::vector<at::Tensor> inputs);

}  // namespace ampd::executor
