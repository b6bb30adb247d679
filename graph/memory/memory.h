#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"
#include "graph/work.h"

// How much memory a program needs beside its parameters, told from the graph alone.
namespace ampd::graph {

// Bytes that are held at one moment.
struct HeldBytes {
  int64_t activations = 0;  // values of the forward pass, and what the backward pass will read
  int64_t gradients = 0;    // of parameters
  int64_t workspace = 0;    // gradients of values, and what ops need only while they run
  int64_t total() const { return activations + gradients + workspace; }
};

struct RunMemory {
  HeldBytes peak;  // the moment of the largest total
  HeldBytes after_forward;
  HeldBytes after_backward;  // only the parameters' gradients are left
};

// What memory depends on beside the program and the batch.
struct RunConditions {
  std::string trained = "*";  // glob on the names of the parameters that are
  bool on_gpu = false;        // where attention has kernels that never hold all scores
  Work* work = nullptr;       // what the estimate counts, and whether it goes on; may be null
};

// One forward and backward pass of a training program, as the executor and autograd run it on a CPU: each value lives
// until its last reader has run, and longer when the op table says that an op saves it; gradients are handed back in
// reverse order, summed in place where nobody else holds them; nodes of one checkpoint segment keep only what the
// segment reads, and run again when the backward pass reaches it. Parameters, buffers and inputs are not counted. Takes
// microseconds a node; a result of work that was stopped means nothing. REQUIRES: every op is in the op table or
// emulated; the program has one output, a scalar loss.
RunMemory EstimateRun(const Graph& program, int64_t batch_size, const RunConditions& conditions = {});

// The moment of the largest total of a forward pass without autograd: each value lives until its last reader has run.
// Counts and takes as much as the above. REQUIRES: every op is in the op table or emulated.
HeldBytes EstimateEvaluation(const Graph& program, int64_t batch_size, bool on_gpu = false, Work* work = nullptr);

}  // namespace ampd::graph
