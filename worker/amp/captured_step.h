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

// Records a step of one shape once, in a step graph (worker/amp/step/step_graph.h), and replays the recording from then
// on.
//
// The first few steps whose micro-batches agree in number, shapes and formats run directly, as a warm-up. The next one
// is recorded. After that, steps of this shape are replayed and all others run directly. Steps that warm up or are
// recorded read their micro-batches from tensors that persist; each step's data is copied into them.
//
// A recording keeps its working memory between replays, so less memory is left for other work on the device. Nothing
// else may use this memory, even between replays. If there is too little memory for other work, the recording is
// dropped, and the next step of its shape is recorded again, which costs about as much as running one step directly.
// Before a step runs directly, MakeRoomFor decides whether to drop the recording. An evaluation can be repeated, so
// it drops the recording only after it ran out of memory. The inputs of the recorded step and of the next one stay on
// the device; apart from them a job needs no more memory than it would without a recording.
//
// A step that cannot be recorded keeps running directly, with the same results. Single-threaded; owner: the engine.
class CapturedStep {
 public:
  // Runs a step on micro-batches. `recorder` is null unless the step is being recorded.
  using Step = absl::FunctionRef<void(const std::vector<Batch>& micro_batches, StepGraph* recorder)>;

  // REQUIRES: `kernels`, which the steps run with, outlives this.
  CapturedStep(const StepGraphs& graphs, StepKernels& kernels, c10::Device device);

  // Runs one step. Replays the recording if the step has its shape, warms up or records if that is due, and otherwise
  // runs the step directly. `seeds`: the seeds of the step's random ops, one per phase and micro-batch; empty if no
  // program is random.
  void Run(const std::vector<Batch>& micro_batches, const std::vector<uint64_t>& seeds, Step step);

  // Drops the recording and restarts the warm-up. Call it when later steps will launch other kernels than the recorded
  // one, for example because a layer no longer computes in FP8. REQUIRES: no step is in flight.
  void Forget();

  // Makes room for a step that will run directly on these micro-batches. Drops the recording if the step has more
  // samples than the recorded one, or if the free memory is less than 1.25 times what the recording uses. The extra
  // quarter is for a step that also computes its FP8 products in a wider format, to compare them. Returns whether it
  // has dropped the recording.
  bool MakeRoomFor(const std::vector<Batch>& micro_batches);
  // Drops the recording and its memory; a replay in flight still completes. Returns false if nothing was recorded.
  bool ReleaseGraph();

  bool captured() const { return captured_; }
  // The bytes of memory that the recording keeps; 0 if nothing is recorded.
  int64_t own_bytes() const { return captured_ ? graph_->memory().own_bytes : 0; }
  // Why steps can't be recorded; empty if they can.
  const std::string& failure() const { return failure_; }

 private:
  bool Fits(const std::vector<Batch>& micro_batches) const;
  void MakeInputs(const std::vector<Batch>& micro_batches);
  void CopyIn(const std::vector<Batch>& micro_batches);
  void Capture(size_t num_seeds, Step step);

  const StepGraphs& graphs_;
  StepKernels& kernels_;
  const c10::Device device_;
  std::unique_ptr<StepGraph> graph_;     // Null after a failure.
  std::unique_ptr<InputCopies> copies_;  // Null after a failure.
  std::vector<Batch> inputs_;
  int num_warm_ups_ = 0;  // Steps run with these inputs.
  bool captured_ = false;
  std::string failure_;
};

}  // namespace ampd::amp
