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

// Steps of one shape, recorded in a step graph once and replayed from then on.
//
// The first steps that have the same micro-batches, by number, shapes and formats, run as they are, for warm-up; the
// next is recorded. From there on such steps are replayed and others run as they are. A step that is recorded or warms
// up takes its micro-batches from tensors that stay, into which each step's are copied.
//
// A recorded step keeps the memory that it works in, between its replays too, and other work on the device finds that
// much less. Nothing else may write there: what of it looks free belongs to the next replay. So a step that runs as it
// is asks for room first, and an evaluation that found none asks afterwards, for it can run again. Where there is too
// little the recording gives way, and the next step that it fits is recorded anew, at the cost of one step run as it
// is. So a job never needs more memory than without a recording.
//
// What can't be recorded goes on running as it is, with the same results. Single-threaded: owner is the engine.
class CapturedStep {
 public:
  // Runs a step on micro-batches, for the recorder where there is one.
  using Step = absl::FunctionRef<void(const std::vector<Batch>& micro_batches, StepGraph* recorder)>;

  // REQUIRES: `kernels`, with which steps run, outlive this.
  CapturedStep(const StepGraphs& graphs, StepKernels& kernels, c10::Device device);

  // Replays a step, or runs it, which makes room for it. `seeds` are those that the recorder is told to use.
  void Run(const std::vector<Batch>& micro_batches, const std::vector<uint64_t>& seeds, Step step);

  // Steps give the device other work from now on: what was recorded is dropped, and the next ones warm up anew.
  // REQUIRES: no step is under way.
  void Forget();

  // A step on these micro-batches will run as it is: gives way unless there is room for it. It takes what the recorded
  // step does if it has no more samples, and a quarter more for what the canary of FP8 computes besides.
  void MakeRoomFor(const std::vector<Batch>& micro_batches);
  // Drops what was recorded, with its memory; what is under way goes on. False when nothing was recorded.
  bool GiveWay();

  bool captured() const { return captured_; }
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
  std::unique_ptr<StepGraph> graph_;  // null after a failure
  std::vector<Batch> inputs_;
  int num_warm_ups_ = 0;  // with these inputs
  bool captured_ = false;
  std::string failure_;
};

}  // namespace ampd::amp
