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

// Trains one attempt from its start or checkpoint to its end, or until it is ordered to leave:
//
//   restore -> [orders -> step -> telemetry -> evaluation, sample and checkpoint if due]*
//           -> checkpoint -> evaluation -> sample
//
// The last evaluation and the last sample follow the last checkpoint, so that neither their failure nor a kill loses
// trained state; an attempt that resumes from that checkpoint still makes them. The last loss is in the outcome, not in
// the checkpoint. An earlier checkpoint follows the sample of its step, so an attempt that resumes from it does not
// draw that sample again.
//
// If ordered to leave while it draws a sample, it stops drawing. If that was a sample before the last step, the exit
// checkpoint records it as pending, and the next attempt draws it before its first step.
//
// On a GPU the next step is begun before the numbers of the last one are read, so that the device never waits for the
// host. A reaction to those numbers therefore finds one more step in flight. Every step that was begun is read before
// an order, an evaluation, a sample, a checkpoint and the end.
//
// A checkpoint costs the loop a copy of the state in memory. It is written while training continues, and reported once
// it is durable. The next checkpoint, a roll-back, leaving and the end wait for that. An error ends the attempt at the
// next step boundary.
//
// The loop leaves at a step boundary, with a checkpoint, or without one on a cancel. If the numbers go wrong beyond
// recovery, on_divergence decides: report it and continue, end the attempt, or roll back to the newest checkpoint (the
// start if there is none) up to three times per job. With roll-back on, no checkpoint is made while the numbers look
// bad, so the newest one is always good. A plain roll-back continues with the data after the place where it went wrong.
// A roll-back that raises the precision repeats the same data, and the raise may be reverted after a quiet period.
// LibTorch's errors leave Run() as exceptions. Single-threaded; owner: the trainer's main thread.
class TrainingLoop {
 public:
  // Every member outlives the loop.
  struct Context {
    const internal::StartAttempt& start;
    AgentLink& link;
    TelemetryOutbox& outbox;
    CheckpointStore& checkpoints;
    StepLog& step_log;
    const ComputeLease& lease;
  };

  TrainingLoop(AttemptPlan plan, const Context& context);

  // Returns how the attempt ended, without last_sequence. Errors carry the reason of a v1.Reason.
  absl::StatusOr<v1::Outcome> Run();

  // Waits for a checkpoint that is being written, which counts however the run ended. REQUIRES: Run() has returned.
  void AwaitCheckpoint() { checkpoint_writer_.Join(); }

  int64_t step() const { return step_; }
  // Whether the initial state or checkpoint was loaded and training has begun.
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
  // Loads the newest sound checkpoint for a roll-back, and reports a damaged one in an event. nullopt: roll back to the
  // start.
  absl::StatusOr<std::optional<LoadedCheckpoint>> LoadNewestSound();
  // Does nothing if `damage` is OK. `taken`: the checkpoint that is loaded instead; empty: the start.
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
  std::deque<std::vector<amp::Batch>> batches_under_way_;  // The batches of under_way_.
  const UnevenBatches uneven_batches_;
  int64_t step_ = 0;  // Steps that were read.
  float train_loss_ = 0;
  std::optional<float> generator_loss_;  // Set for a GAN only, whose train_loss_ is its discriminator's.
  int num_replays_ = 0;                  // Replays in a row of the next batch.
  DivergenceMonitor monitor_;
  std::optional<amp::Plateau> plateau_;
  Recovery recovery_;
  uint64_t applied_order_ = 0;  // Number of the last live change of the loss scale.
  CanaryReport canary_;         // Findings about the current engine.
  bool has_begun_ = false;
  bool told_underflow_ = false;         // Reported since the last sample in which no gradient underflowed.
  bool told_fp8_underflow_ = false;     // Reported since the canary last found no underflow in FP8.
  bool told_activations_ = false;       // Reported since the last sampled forward pass without a fault.
  bool told_uneven_ = false;            // Warned that batches may count different numbers of labels.
  bool tells_gradients_ = false;        // The next step reports its gradients.
  bool rolled_back_ = false;            // A step that was just read caused a roll-back.
  std::optional<RunFacts> last_facts_;  // Facts about the last step read.
  std::string told_state_;              // The tensor last reported as not finite.
  bool told_evaluation_ = false;        // A non-finite loss was reported since the last finite one.
  bool owes_evaluation_ = false;        // The checkpoint's step still needs its evaluation before the next step.
  bool owes_sample_ = false;            // The sample of step_ is pending: it was ordered to leave while it drew.
  std::optional<v1::EvalPoint> last_eval_;
  std::optional<double> best_eval_loss_;  // Lowest loss that has a checkpoint.
  std::optional<int64_t> snapshot_step_;  // Step of the last checkpoint, which may not be written yet.
  // The copy that the checkpoint is written from. Kept, so that the next one reuses its memory.
  TrainingState snapshot_;
  CheckpointWriter checkpoint_writer_;  // Last member: it reads those above.
};

}  // namespace ampd::train
