#pragma once

#include <cstdint>
#include <string>

#include "worker/amp/step/step_graph.h"
#include "worker/kernels/cuda/cuda_kernels.h"

// Step graphs for an engine that computes on the CPU with the emulated CUDA kernels. Like a CUDA graph they record only
// what a step gives to the device: each LibTorch op below autograd with the memory of its arguments and results, each
// kernel launch, each seed. A replay repeats that on the same memory, and runs no other line of the engine. To expose
// mistakes:
//   * what ops wrote into others' memory during the recording is undone afterwards;
//   * memory allocated during the recording belongs to the graph, and is filled with NaNs before every replay;
//   * an op that reads a number back to the host cannot be recorded;
//   * while there is a recording, other allocations find no more memory than FreeBytes().
// It does not expose errors with streams, or copies from host memory that is gone by the time of a replay.
// Single-threaded: one step is recorded at a time.
namespace ampd::amp {

struct RecordedGraphCounts {
  int warm_ups = 0;
  int recordings = 0;
  int replays = 0;
};

// Counts over all graphs since they were last set.
RecordedGraphCounts& GraphCounts();

// The op, counted from 1, that cannot be recorded; 0: all can.
int& FailingOp();

// While a recording exists, larger tensors outside of recordings cannot be allocated; without a recording there is
// enough memory.
int64_t& FreeBytes();

const StepGraphs* RecordedGraphs();

// The emulated kernels; their launches are recorded while a step is recorded.
const kernels::CudaKernels* RecordableKernels();

}  // namespace ampd::amp
