#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/functional/function_ref.h"
#include "worker/amp/step/step_graph.h"
#include "worker/kernels/cuda/cuda_kernels.h"

// Step graphs for an engine that computes on the CPU with the emulated CUDA kernels. Like CUDA graphs they record only
// the work that a step gives to the device: each LibTorch op below autograd with the memory of its arguments and
// results, each kernel launch, each seed. A replay repeats this work on the same memory, and runs no other line of the
// engine. To expose mistakes:
//   * after the recording, memory from before the recording has its old content again;
//   * memory allocated during the recording belongs to the graph, and is filled with NaNs before every replay;
//   * an op that reads a number back to the host cannot be recorded;
//   * while there is a recording, other allocations find no more memory than FreeBytes().
// Such graphs do not expose errors with CUDA streams, or copies from host memory that is freed before the replay.
// Single-threaded: one step is recorded at a time.
namespace ampd::amp {

struct RecordedGraphCounts {
  int warm_ups = 0;
  int recordings = 0;
  int replays = 0;
};

// Counts of warm-ups, recordings and replays over all graphs. Tests set them to 0.
RecordedGraphCounts& GraphCounts();

// A recording fails at the op with this number, counted from 1. With 0, no recording fails.
int& FailingOp();

// Makes memory scarce. While a recorded graph exists, an allocation of more bytes than this fails, unless a recording
// is under way. Without a recorded graph, no allocation fails.
int64_t& FreeBytes();

const StepGraphs* RecordedGraphs();

// Runs `work`, which records no step, and returns the names of the LibTorch ops below autograd that it calls, such as
// "aten::addmm", each with the number of calls. Ops that another counted op calls do not count.
std::map<std::string, int> CountOps(absl::FunctionRef<void()> work);

// Returns the emulated kernels. While a step is recorded, their launches are recorded, too.
const kernels::CudaKernels* RecordableKernels();

}  // namespace ampd::amp
