#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/internal/trainer.pb.h"
#include "base/ipc/compute_lease.h"
#include "worker/amp/engine.h"
#include "worker/amp/plateau.h"
#include "worker/data/batcher.h"
#include "worker/data/dataset.h"
#include "worker/data/sampler.h"
#include "worker/train/checkpoint/checkpoint_store.h"
#include "worker/train/checkpoint/checkpoint_writer.h"
#include "worker/train/checkpoint/training_state.h"
#include "worker/train/health/divergence_monitor.h"
#include "worker/train/loop/steps_under_way.h"
#include "worker/train/plan/attempt_plan.h"
#include "worker/train/plan/uneven_batches.h"
#include "worker/train/report/agent_link.h"
#include "worker/train/report/gradient_report.h"
#include "worker/train/report/step_log.h"
#include "worker/train/report/telemetry_writer.h"

namespace ampd::train {

// Trains one attempt from its start or checkpoint to its end, or until it is told to leave:
//
//   restore -> [orders -> step -> telemetry -> evaluation, sample and checkpoint if due]*
//           -> checkpoint -> evaluation -> sample
//
// The last evaluation and the last sample come behind the last checkpoint, so that none of their failures, and no kill,
// takes trained state with it: an attempt that goes on from there has them left to do. The last loss is in the outcome,
// not in the checkpoint. An earlier checkpoint comes behind the sample of its step, which an attempt that goes on from
// there need not draw again.
//
// Told to leave while it draws a sample, it stops drawing. One of a step before the last is owed with the checkpoint
// that it leaves with, and the attempt that goes on from there draws it before its first step.
//
// On a GPU the next step is begun before the last one's numbers are read, so that the device never waits for the host;
// what those numbers bring about then finds one more step under way. Before an order, an evaluation, a sample, a
// checkpoint and the end every step that was begun is read.
//
// A checkpoint costs the loop a copy of the state in memory; it is written while training goes on, and reported when it
// is durable. The next one waits until it is, and so do a roll-back, leaving and the end. An error ends the attempt at
// the next step boundary.
//
// It leaves at a step boundary: with a checkpoint, or without one on a cancel. When the numbers go wrong beyond
// healing, on_divergence decides: to tell it and go on, to end the attempt, or to go back to the newest checkpoint (the
// start when there is none) up to three times in a job. No checkpoint is made while the numbers look bad, so the newest
// is always good. A plain roll-back goes on with the data behind the place where it went wrong; one that raises the
// precision goes over the same data again, and the raise may be taken back after a quiet period. LibTorch's errors
// leave Run() as exceptions. Single-threaded: owner the trainer's main thread.
class TrainingLoop {
 public:
  // Everything outlives the loop.
  struct Context {
    const internal::StartAttempt& start;
    AgentLink& link;
    TelemetryOutbox& outbox;
    CheckpointStore& checkpoints;
    StepLog& step_log;
    const ComputeLease& lease;
  };

  TrainingLoop(AttemptPlan plan, const Context& context);

  // How it ended, without last_sequence. Errors carry the reason of a v1.Reason.
  absl::StatusOr<v1::Outcome> Run();

  // Waits for a checkpoint that is being written, which counts however the run ended; REQUIRES: Run() is left.
  void AwaitCheckpoint() { checkpoint_writer_.Join(); }

  int64_t step() const { return step_; }
  // Whether it has left its start, or checkpoint, behind.
  bool has_begun() const { return has_begun_; }
  v1::FinalMetrics metrics() const;

 private:
  data::Dataset::Samples Gather(const std::vector<int64_t>& indices, int64_t epoch) const;
  absl::Status Prepare();
  absl::Status Begin();
  absl::Status MakeEngine();
  absl::Status ImportExportedState();
  absl::Status ImportInitialWeights();
  absl::Status Restore(const v1::Checkpoint& checkpoint);
  absl::Status Adopt(TrainingState state);
  void DropScaleOfAnotherPrecision(const LoadedCheckpoint& checkpoint, TrainingState& state) const;
  absl::Status WarnIfElsewhere(const LoadedCheckpoint& checkpoint);
  absl::Status DoWhatIsDue();
  bool OwesEvaluation() const;
  absl::Status ApplyOrders();
  uint64_t RandomStreamOf(const data::Sampler::Cursor& place) const;
  void BeginStep();
  size_t StepsAhead() const;
  absl::Status EndSteps();
  absl::Status EndStep();
  absl::Status TellOrder(const v1::LossScaleOrder& order);
  absl::Status ReplayIfSkipped(const amp::StepResult& result, const data::Sampler::Cursor& place);
  absl::Status CheckNumbers(const amp::StepResult& result, const data::Sampler::Cursor& place);
  RunFacts FactsOf(const amp::StepResult& result, const data::Sampler::Cursor& place);
  RunFacts Facts() const;
  bool IgnoresAllLabels(const data::Sampler::Cursor& place) const;
  absl::Status CheckState();
  absl::Status CheckBegun();
  absl::Status CheckRestored();
  absl::Status CheckEvaluation(bool ignores_all_labels);
  bool IsGood() const;
  absl::Status TellUnderflow(const amp::StepResult& result);
  absl::Status TellActivations(const amp::StepResult& result, const std::vector<amp::Batch>& micro_batches,
                               const data::Sampler::Cursor& place);
  absl::Status TellUneven(const std::string& why, const char* batches);
  absl::Status TellFp8Underflow(const amp::StepResult& result);
  absl::Status TellDemotions(const amp::StepResult& result);
  void TellGraphFailure();
  absl::Status AtFloor();
  absl::Status CheckTrained();
  absl::Status OnDivergence(const Finding& finding, const std::string& module);
  absl::Status RollBack(const Finding& finding, const std::string& module);
  absl::Status GoBack();
  absl::Status GoBackToStart();
  // What a roll-back loads: the newest checkpoint that is sound, and an event of a damaged one. Nothing: the start.
  absl::StatusOr<std::optional<LoadedCheckpoint>> LoadNewestSound();
  // Nothing to report where `damage` is OK. `taken`: what is loaded instead; empty: the start.
  absl::Status ReportDamage(const absl::Status& damage, const std::string& taken);
  absl::Status TellRaise(const std::string& why);
  absl::Status ChangePrecision(PrecisionRaise raise);
  bool MayLower() const;
  absl::Status Lower();
  bool MayRollBack() const;
  absl::Status Evaluate();
  absl::Status FollowPlateau();
  absl::Status TellSample();
  absl::Status Checkpoint();
  absl::StatusOr<v1::Checkpoint> WriteSnapshot(v1::Checkpoint checkpoint, CheckpointContent identity);
  bool IsBest() const;
  absl::StatusOr<v1::Outcome> Leave(const internal::LeaveAttempt& leave);
  void ReportState(v1::Attempt::State state);
  TrainingState State(amp::EngineState room) const;
  CheckpointContent Identity() const;

  AttemptPlan plan_;
  const Context context_;
  TelemetryWriter telemetry_;
  data::Batcher batcher_;
  std::unique_ptr<amp::Engine> engine_;
  std::string told_graph_failure_;
  StepsUnderWay under_way_;
  std::deque<std::vector<amp::Batch>> batches_under_way_;  // beside them
  const UnevenBatches uneven_batches_;
  int64_t step_ = 0;  // read
  float train_loss_ = 0;
  std::optional<float> generator_loss_;  // of a GAN, whose train_loss_ is its discriminator's
  int num_replays_ = 0;                  // in a row, of the batch that comes next
  DivergenceMonitor monitor_;
  std::optional<amp::Plateau> plateau_;
  Recovery recovery_;
  uint64_t applied_order_ = 0;  // number of the last live change of the loss scale
  CanaryReport canary_;         // of the engine that there is
  bool has_begun_ = false;
  bool told_underflow_ = false;         // since a sample in which no gradient underflowed
  bool told_fp8_underflow_ = false;     // since a look of the canary that found none in FP8
  bool told_activations_ = false;       // since a sampled forward pass without a fault
  bool told_uneven_ = false;            // that batches may count different numbers of labels
  bool tells_gradients_ = false;        // of the next step to begin
  bool rolled_back_ = false;            // by a step just read
  std::optional<RunFacts> last_facts_;  // as of the last step read
  std::string told_state_;              // the tensor that was told to be not finite, last
  bool told_evaluation_ = false;        // that a loss is not finite, since a finite one
  bool owes_evaluation_ = false;        // of the step that a checkpoint was taken at, before the next one
  bool owes_sample_ = false;            // of step_: it was told to leave while it drew
  std::optional<v1::EvalPoint> last_eval_;
  std::optional<double> best_eval_loss_;  // that has a checkpoint
  std::optional<int64_t> snapshot_step_;  // of the last checkpoint, which may not be written yet
  // The copy that it is written from. Kept, so that the next one need not touch fresh pages.
  TrainingState snapshot_;
  CheckpointWriter checkpoint_writer_;  // last: it reads what is above
};

}  // namespace ampd::train
