#pragma once

#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/executor/executor.h"
#include "worker/executor/program.h"

namespace ampd::executor {

// What a run is given besides its tensors.
struct RunConditions {
  int64_t batch_size = 0;
  c10::Device device = c10::DeviceType::CPU;
  std::vector<TracedCall>* calls = nullptr;  // of a run that is traced
  RunObserver* observer = nullptr;           // of the nodes' results
};

// The sizes of a shape in a run.
std::vector<int64_t> SizesAt(const graph::Shape& shape, int64_t batch_size);

// Runs instructions in order over `values`, which are indexed by value and hold what the instructions read. A value is
// moved to its last reader. Recorded by autograd when the caller's grad mode says so; then a segment (program.h) keeps
// only its inputs and runs again in the backward pass:
//
// * with the random state of its first run where an op is random, and without writing buffers again;
// * its inputs, parameters among them, are detached there, so that its gradients arrive where those of the first run
//   would have, in the same order and with the same bits;
// * an input that was changed in between is an error of autograd's.
//
// Throws OpError, or c10::Error where no op is to blame. Single-threaded; the backward pass is the caller's.
void Interpret(const std::vector<Instruction>& program, const RunConditions& conditions,
               std::vector<at::Tensor>& values);

}  // namespace ampd::executor
