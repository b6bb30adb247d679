#pragma once

#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/executor/executor.h"
#include "worker/executor/program.h"

namespace ampd::executor {

// The settings of one run of a program, apart from its tensors.
struct RunConditions {
  int64_t batch_size = 0;
  c10::Device device = c10::DeviceType::CPU;
  std::vector<TracedCall>* calls = nullptr;  // Records the calls of a traced run.
  RunObserver* observer = nullptr;           // Receives the nodes' results.
};

// The sizes of `shape` for the given batch size.
std::vector<int64_t> SizesAt(const graph::Shape& shape, int64_t batch_size);

// Runs `program`, instruction by instruction. `values` holds a tensor for each value of the graph that is already
// known; instructions read from it and add their results. A value is moved to the last instruction that reads it.
// Autograd records the run if the caller's grad mode is on. A checkpoint segment (program.h) then saves only its inputs
// and runs again in the backward pass:
//
// * with the random state of its first run if an op is random, and without writing buffers again;
// * with its inputs detached, parameters included, so that gradients reach the original inputs in the same order and
//   with the same bits as without a segment.
//
// Autograd reports an error if an input was changed between the two runs.
//
// Throws OpError, or c10::Error if the error belongs to no op. Single-threaded; the caller runs the backward pass.
void Interpret(const std::vector<Instruction>& program, const RunConditions& conditions,
               std::vector<at::Tensor>& values);

}  // namespace ampd::executor
