#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"
#include "graph/work.h"

// Estimates the memory that a program needs besides its parameters, from the graph alone.
namespace ampd::graph {

// The memory, in bytes, that a run of a program holds at one moment.
struct HeldBytes {
  int64_t activations = 0;  // Values of the forward pass, and tensors saved for the backward pass.
  int64_t gradients = 0;    // Gradients of parameters.
  int64_t workspace = 0;    // Gradients of values, and memory that ops need only while they run.
  int64_t total() const { return activations + gradients + workspace; }
};

struct RunMemory {
  HeldBytes peak;  // At the moment when the total was largest.
  HeldBytes after_forward;
  HeldBytes after_backward;  // Only the parameters' gradients are left.
};

// Conditions that the memory depends on besides the program and the batch.
struct RunConditions {
  std::string trained = "*";  // Glob on the names of trained parameters.
  bool on_gpu = false;        // The program runs on a GPU, whose attention kernels never hold all scores.
  Work* work = nullptr;       // Counts the estimate's work and may stop it; may be null.
};

// Estimates one forward and backward pass of a training program, as the executor and autograd run it on a CPU. Each
// value lives until its last reader has run, or longer if the op table says that an op saves the value for the backward
// pass. Gradients are passed back in reverse order, and summed in place if nothing else holds them. Nodes of a
// checkpoint segment keep only the inputs of the segment, and run again when the backward pass reaches the segment.
// Parameters, buffers and inputs are not counted. Takes microseconds per node. The result is meaningless if `work` was
// stopped. REQUIRES: every op is in the op table or one that ApplyPrecision or WithFusedBatchNorms inserts; the program
// has one output, a scalar loss.
RunMemory EstimateRun(const Graph& program, int64_t batch_size, const RunConditions& conditions = {});

// Returns the most memory that a forward pass without autograd holds at one moment. Each value lives until its last
// reader has run. Parameters, buffers and inputs are not counted. Takes microseconds per node. REQUIRES: every op is in
// the op table or one that ApplyPrecision or WithFusedBatchNorms inserts.
HeldBytes EstimateEvaluation(const Graph& program, int64_t batch_size, bool on_gpu = false, Work* work = nullptr);

}  // namespace ampd::graph
