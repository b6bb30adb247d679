#pragma once

#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/executor/executor.h"
#include "worker/executor/program.h"

namespace ampd::executor {

// Settings of a run besides its tensors.
struct RunConditions {
  int64_t batch_size = 0;
  c10::Device device = c10::DeviceType::CPU;
  std::vector<TracedCall>* calls = nullptr;  // Records the calls of a traced run.
  RunObserver* observer = nullptr;           // Receives the nodes' results.
};

// The sizes of a shape for a batch size.
std::vector<int64_t> SizesAt(const graph::Shape& shape, int64_t batch_size);

// Runs instructions in order over `values`, which are indexed by value and hold what the instructions read. A value is
// moved to its last reader. Autograd records the run if the caller's grad mode is on. A segment (program.h) then saves
// only its inputs and runs again in the backward pass:
//
// * with the random state of its first run if an op is random, and without writing buffers again;
// * on detached inputs, parameters among them, so that its gradients arrive where those of the first run would have, in
//   the same order and with the same bits.
//
// Autograd reports an error if an input was changed between the two runs.
//
// Throws OpError, or c10::Error if the error belongs to no op. Single-threaded; the backward pass belongs to the
// caller.
void Interpret(const std::vector<Instruction>& program, const RunConditions& conditions,
               std::vector<at::Tensor>& values);

}  // namespace ampd::executor
