#pragma once

#include <cstdint>
#include <string>

#include "worker/amp/step/step_graph.h"
#include "worker/kernels/cuda/cuda_kernels.h"

// Step graphs for an engine that computes on the CPU with the emulated CUDA kernels. As a CUDA graph they keep what a
// step gives the device and nothing else: each op of LibTorch below autograd with the memory of its arguments and
// results, each launch of a kernel, each seed. A replay does that again, on the same memory, and runs no other line of
// the engine. So that it shows mistakes:
//   * what ops wrote into others' memory while the step was recorded is taken back afterwards;
//   * what was allocated meanwhile belongs to the graph, and before every replay it is filled with NaNs;
//   * an op that reads a number back to the host can't be recorded;
//   * while a step is recorded, what else allocates finds no more memory than FreeBytes().
// What it does not show: streams, and copies from memory of the host that is gone by the time of a replay.
// Single-threaded: one step is recorded at a time.
namespace ampd::amp {

struct RecordedGraphCounts {
  int warm_ups = 0;
  int recordings = 0;
  int replays = 0;
};

// Of all graphs since the counts were last set.
RecordedGraphCounts& GraphCounts();

// The op, counted from 1, that can't be recorded; 0: all can.
int& FailingOp();

// For tensors of more bytes there is no memory outside of recordings, as long as there is one; without one there is
// enough.
int64_t& FreeBytes();

const StepGraphs* RecordedGraphs();

// The emulated kernels; while a step is recorded, their launches are.
const kernels::CudaKernels* RecordableKernels();

}  // namespace ampd::amp
