#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "worker/amp/phase.h"
#include "worker/amp/step/step_graph.h"
#include "worker/amp/step/step_kernels.h"

namespace ampd::amp {

// Records a step of one shape in a step graph once and replays it from then on.
//
// The first few steps whose micro-batches agree in number, shapes and formats run directly, as a warm-up. The next one
// is recorded. After that, steps of this shape are replayed and all others run directly. Steps that warm up or are
// recorded read their micro-batches from tensors that persist; each step's data is copied into them.
//
// A recording keeps its working memory between replays too, so other work on the device has that much less. Nothing
// else may use this memory: parts that look free belong to the next replay. A step that runs directly therefore asks
// for memory before it starts. An evaluation, which can be repeated, asks only after it ran out of memory. If there is
// too little, the recording is dropped, and the next step of its shape is recorded again, which costs about as much as
// running one step directly. So a job never needs more memory than it would without a recording.
//
// A step that cannot be recorded keeps running directly, with the same results. Single-threaded; owner: the engine.
class CapturedStep {
 public:
  // Runs a step on micro-batches. `recorder` is null unless the step is being recorded.
  using Step = absl::FunctionRef<void(const std::vector<Batch>& micro_batches, StepGraph* recorder)>;

  // REQUIRES: `kernels`, which the steps run with, outlives this.
  CapturedStep(const StepGraphs& graphs, StepKernels& kernels, c10::Device device);

  // Replays the step, or runs it directly after freeing memory for it. `seeds` are the seeds for the recorder's random
  // ops.
  void Run(const std::vector<Batch>& micro_batches, const std::vector<uint64_t>& seeds, Step step);

  // Drops the recording and restarts the warm-up. Call it when steps will give the device different work from now on.
  // REQUIRES: no step is in flight.
  void Forget();

  // Call before a step on these micro-batches runs directly. Drops the recording unless there is enough memory beside
  // it: as much as the recorded step uses, plus a quarter for what FP8's canary computes in addition. A step with more
  // samples than the recorded one always drops it.
  void MakeRoomFor(const std::vector<Batch>& micro_batches);
  // Drops the recording and its memory; a replay in flight still completes. Returns false if nothing was recorded.
  bool ReleaseGraph();

  bool captured() const { return captured_; }
  // The memory that the recording keeps; 0 if nothing is recorded.
  int64_t own_bytes() const { return captured_ ? graph_->memory().own_bytes : 0; }
  // Why no step will be replayed; empty while one may be.
  const std::string& failure() const { return failure_; }

 private:
  bool Fits(const std::vector<Batch>& micro_batches) const;
  void MakeInputs(const std::vector<Batch>& micro_batches);
  void CopyIn(const std::vector<Batch>& micro_batches);
  void Capture(size_t num_seeds, Step step);

  const StepGraphs& graphs_;
  StepKernels& kernels_;
  const c10::Device device_;
  std::unique_ptr<StepGraph> graph_;  // Null after a failure.
  std::vector<Batch> inputs_;
  int num_warm_ups_ = 0;  // Steps run with these inputs.
  bool captured_ = false;
  std::string failure_;
};

}  // namespace ampd::amp
