#include "worker/train/loop/training_loop.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "ATen/Parallel.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "precision/loss_scale.h"
#include "precision/memory.h"
#include "worker/data/noise.h"
#include "worker/train/device/compute_device.h"
#include "worker/train/plan/labels.h"
#include "worker/train/plan/model_source.h"
#include "worker/train/report/eval_point.h"
#include "worker/train/report/gan_step.h"
#include "worker/train/sample/sample_drawing.h"

namespace ampd::train {
namespace {

using precision::LossScaleConfig;
using v1::Event;
using v1::Outcome;

StepsUnderWay::Instant Now() { return std::chrono::steady_clock::now(); }

// Splits a batch into equal parts. REQUIRES: its size is a multiple of `num_parts`.
std::vector<amp::Batch> Cut(const data::Dataset::Samples& samples, int64_t num_parts) {
  const int64_t size = samples.labels.size(0) / num_parts;
  std::vector<amp::Batch> parts;
  for (int64_t i = 0; i < num_parts; ++i) {
    const auto part = [i, size](const at::Tensor& whole) {
      return whole.defined() ? whole.narrow(0, i * size, size) : at::Tensor();
    };
    amp::Batch& batch = parts.emplace_back(amp::Batch{part(samples.images), part(samples.labels)});
    for (const auto& [name, tensor] : samples.others) {
      batch.others[name] = part(tensor);
    }
  }
  return parts;
}

bool IsDue(int64_t step, int64_t every_steps) { return every_steps > 0 && step % every_steps == 0; }

}  // namespace

TrainingLoop::TrainingLoop(AttemptPlan plan, const Context& context)
    : plan_(std::move(plan)),
      context_(context),
      telemetry_(context.outbox, context.start.key().attempt()),
      batcher_(
          plan_.sampler, [this](const std::vector<int64_t>& indices, int64_t epoch) { return Gather(indices, epoch); },
          {.batches =
               static_cast<size_t>(precision::BatchesAhead(Gather({0}, 0).bytes() * plan_.sampler.num_in_batch())),
           .threads =
               static_cast<size_t>(precision::GatherThreads(static_cast<int>(std::thread::hardware_concurrency())))}),
      uneven_batches_(plan_.model),
      checkpoint_writer_([this](const v1::Checkpoint& checkpoint, uint64_t after_sequence) {
        context_.link.ReportCheckpoint(checkpoint, after_sequence);
      }) {
  if (plan_.plateau.has_value()) {
    plateau_.emplace(*plan_.plateau, plan_.engine.optimizer.learning_rate);
  }
}

// Runs on the batcher's threads, so it reads nothing that training writes.
data::Dataset::Samples TrainingLoop::Gather(const std::vector<int64_t>& indices, int64_t epoch) const {
  data::Dataset::Samples samples = plan_.train.Get(indices, plan_.augmentation, epoch);
  if (plan_.noise.shape.has_value()) {
    samples.others["noise"] = data::NoiseOf(plan_.noise.seed, epoch, indices, *plan_.noise.shape);
  }
  return samples;
}

absl::StatusOr<Outcome> TrainingLoop::Run() {
  AMPD_RETURN_IF_ERROR(Prepare());
  has_begun_ = true;
  ReportState(v1::Attempt::RUNNING);
  while (step_ < plan_.total_steps) {
    AMPD_RETURN_IF_ERROR(checkpoint_writer_.Check());
    if (const auto leave = context_.link.leave(); leave.has_value()) {
      AMPD_RETURN_IF_ERROR(EndSteps());
      return Leave(*leave);
    }
    if (MayLower()) {
      AMPD_RETURN_IF_ERROR(Lower());
    }
    if (std::exchange(owes_evaluation_, false)) {
      AMPD_RETURN_IF_ERROR(DoWhatIsDue());
      rolled_back_ = false;
    } else if (owes_sample_) {
      AMPD_RETURN_IF_ERROR(TellSample());
    }
    if (owes_sample_) {
      continue;  // Leaving.
    }
    AMPD_RETURN_IF_ERROR(ApplyOrders());
    BeginStep();
    while (under_way_.size() > StepsAhead()) {
      AMPD_RETURN_IF_ERROR(EndStep());
    }
    if (!rolled_back_ && under_way_.empty()) {
      AMPD_RETURN_IF_ERROR(step_ < plan_.total_steps ? DoWhatIsDue() : CheckState());
    }
    rolled_back_ = false;
  }
  AMPD_RETURN_IF_ERROR(CheckTrained());
  AMPD_RETURN_IF_ERROR(Checkpoint());
  AMPD_RETURN_IF_ERROR(checkpoint_writer_.Wait());  // First, so that a failing evaluation loses nothing.
  AMPD_RETURN_IF_ERROR(Evaluate());
  AMPD_RETURN_IF_ERROR(TellSample());
  if (owes_sample_) {
    return Leave(*context_.link.leave());
  }
  Outcome outcome;
  outcome.set_kind(Outcome::FINISHED);
  outcome.set_reason(v1::SUCCEEDED_NORMALLY);
  return outcome;
}

// Runs periodic actions between two steps.
absl::Status TrainingLoop::DoWhatIsDue() {
  if (IsDue(step_, plan_.eval_every_steps) || IsDue(step_, plan_.checkpoint_every_steps)) {
    AMPD_RETURN_IF_ERROR(CheckState());
    if (rolled_back_) {
      return absl::OkStatus();
    }
  }
  if (IsDue(step_, plan_.eval_every_steps)) {
    AMPD_RETURN_IF_ERROR(Evaluate());
    AMPD_RETURN_IF_ERROR(FollowPlateau());
  }
  if (IsDue(step_, plan_.sample_every_steps())) {
    AMPD_RETURN_IF_ERROR(TellSample());
    if (owes_sample_) {
      return absl::OkStatus();  // Leaving makes the checkpoint.
    }
  }
  if ((IsDue(step_, plan_.checkpoint_every_steps) || IsBest()) && IsGood()) {
    AMPD_RETURN_IF_ERROR(Checkpoint());
  }
  return absl::OkStatus();
}

// Whether the checkpoint of the last step lacks an evaluation that the plateau schedule would have seen by now. A
// longer run that resumes from it makes that evaluation first.
bool TrainingLoop::OwesEvaluation() const {
  return plateau_.has_value() && plan_.eval.has_value() && step_ == plan_.total_steps &&
         IsDue(step_, plan_.eval_every_steps);
}

absl::Status TrainingLoop::Prepare() {
  at::set_num_threads(plan_.num_threads);
  if (GoesOn(context_.start)) {
    AMPD_RETURN_IF_ERROR(Restore(context_.start.start_from()));
  } else {
    AMPD_RETURN_IF_ERROR(Begin());
  }
  for (const std::string& warning : plan_.policy.warnings) {
    AMPD_RETURN_IF_ERROR(telemetry_.Event(Event::WARNING, step_, warning));
  }
  for (const std::string& note : plan_.data_notes) {
    AMPD_RETURN_IF_ERROR(telemetry_.Event(Event::DATA_READ, step_, note));
  }
  batcher_.Start();
  ResetPeakMemory(plan_.engine.device);
  return absl::OkStatus();
}

absl::Status TrainingLoop::ApplyOrders() {
  const std::vector<internal::ApplyLossScale> orders = context_.link.LossScaleOrders(applied_order_);
  if (!orders.empty()) {
    AMPD_RETURN_IF_ERROR(EndSteps());
    rolled_back_ = false;  // The order goes to the current engine.
  }
  for (const internal::ApplyLossScale& one : orders) {
    const v1::LossScaleOrder& order = one.order();
    applied_order_ = one.number();
    engine_->scaler().Set(order.has_scale() ? std::optional<double>(order.scale()) : std::nullopt,
                          order.has_growth_interval() ? std::optional<int>(order.growth_interval()) : std::nullopt);
    AMPD_RETURN_IF_ERROR(TellOrder(order));
  }
  tells_gradients_ = context_.link.TakeGradientRequest();
  if (tells_gradients_) {
    engine_->SampleNextStep();
  }
  return absl::OkStatus();
}

// Numbers the random stream of a batch by its position in the data over all epochs.
uint64_t TrainingLoop::RandomStreamOf(const data::Sampler::Cursor& place) const {
  return static_cast<uint64_t>(place.epoch) * static_cast<uint64_t>(plan_.sampler.num_samples + 1) +
         static_cast<uint64_t>(place.position);
}

void TrainingLoop::BeginStep() {
  const StepsUnderWay::Instant asked = Now();
  const data::Batcher::Batch batch = batcher_.Next();
  const StepsUnderWay::Instant given = Now();
  // After the wait for data, during which a lease may expire. The wait for a lease is not part of the step.
  const absl::Duration leased_at = context_.lease.AwaitValid(SystemClock());
  const StepsUnderWay::Instant begin = Now() - (given - asked);
  const double data_wait_seconds = std::chrono::duration<double>(given - asked).count();
  const auto number = step_ + static_cast<int64_t>(under_way_.size()) + 1;
  context_.step_log.Started(leased_at, context_.start.key().job_id(), context_.start.key().attempt(), number);
  std::vector<amp::Batch> micro_batches = Cut(batch.samples, plan_.num_micro_batches);
  engine_->Enqueue(micro_batches, RandomStreamOf(batch.place));
  TellGraphFailure();
  under_way_.Begin({begin, batch.place, data_wait_seconds, tells_gradients_,
                    told_uneven_ ? "" : uneven_batches_.WhyUneven(micro_batches)});
  batches_under_way_.push_back(std::move(micro_batches));
}

// The number of steps that may stay in flight now. It is 0 if the next action depends on the last step's numbers: at a
// boundary, if a skipped batch is replayed, and if one more overflow changes the precision.
size_t TrainingLoop::StepsAhead() const {
  const int64_t begun = step_ + static_cast<int64_t>(under_way_.size());
  const bool is_boundary = begun == plan_.total_steps || IsDue(begun, plan_.eval_every_steps) ||
                           IsDue(begun, plan_.checkpoint_every_steps) || IsDue(begun, plan_.sample_every_steps());
  const bool may_lower = plan_.lower_again_after_steps > 0 && recovery_.raise != PrecisionRaise();
  const LossScaleConfig& scaling = plan_.policy.loss_scale;
  const bool may_raise = scaling.at_floor == LossScaleConfig::AtFloor::kFallBack &&
                         engine_->scaler().scale() <= static_cast<float>(scaling.floor);
  return is_boundary || may_lower || may_raise || plan_.replay_skipped
             ? 0
             : static_cast<size_t>(std::min(plan_.steps_ahead, engine_->max_pending()));
}

// Reads every step in flight. A roll-back drops those that are not read yet.
absl::Status TrainingLoop::EndSteps() {
  while (!under_way_.empty()) {
    AMPD_RETURN_IF_ERROR(EndStep());
  }
  return absl::OkStatus();
}

// Reads the oldest step in flight, reports it and acts on it.
absl::Status TrainingLoop::EndStep() {
  const amp::StepResult result = engine_->AwaitStep();
  const StepsUnderWay::ReadStep step = under_way_.Read(Now());
  const std::vector<amp::Batch> micro_batches = std::move(batches_under_way_.front());
  batches_under_way_.pop_front();
  ++step_;
  const auto gan = GanStepOf(result);
  train_loss_ = gan.has_value() ? gan->discriminator.loss : result.loss;
  generator_loss_ = gan.has_value() ? std::optional(gan->generator.loss) : std::nullopt;
  AMPD_RETURN_IF_ERROR(telemetry_.Step(step_, result, engine_->scaler().scale(),
                                       {.seconds = step.seconds,
                                        .data_wait_seconds = step.data_wait_seconds,
                                        .num_samples = plan_.sampler.num_in_batch(),
                                        .memory = GetMemory(plan_.engine.device)}));
  if (!result.fp8.empty()) {
    canary_ = {step_, result.fp8};
  }
  if (step.tells_gradients) {
    AMPD_RETURN_IF_ERROR(telemetry_.Gradients(step_, result, plan_.policy.loss_scale, canary_));
  }
  AMPD_RETURN_IF_ERROR(TellUneven(step.why_uneven, "a step's micro-batches"));
  ReportState(v1::Attempt::RUNNING);
  AMPD_RETURN_IF_ERROR(TellActivations(result, micro_batches, step.place));
  AMPD_RETURN_IF_ERROR(ReplayIfSkipped(result, step.place));
  return CheckNumbers(result, step.place);
}

absl::Status TrainingLoop::Evaluate() {
  if (!plan_.eval.has_value() || (last_eval_.has_value() && last_eval_->step() == step_)) {
    return absl::OkStatus();
  }
  amp::EvalSums sums;
  bool ignores_all_labels = false;  // In one of the batches.
  amp::Batch first;
  std::string why_uneven;
  for (int64_t begin = 0; begin < plan_.eval->size(); begin += plan_.eval_batch_size) {
    std::vector<int64_t> indices(static_cast<size_t>(std::min(plan_.eval_batch_size, plan_.eval->size() - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    const amp::Batch batch = Cut(plan_.eval->Get(indices), 1).front();
    ignores_all_labels = ignores_all_labels || AreAllIgnored(batch.labels, plan_.ignored_label);
    sums.Add(engine_->Evaluate(batch));
    first = begin == 0 ? batch : first;
    if (begin > 0 && why_uneven.empty() && !told_uneven_) {
      why_uneven = uneven_batches_.WhyUneven({first, batch});
    }
  }
  AMPD_RETURN_IF_ERROR(TellUneven(why_uneven, "an evaluation's batches"));
  last_eval_ = EvalPointOf(graph::HeadOf(plan_.model).value(), sums);
  last_eval_->set_step(step_);
  AMPD_RETURN_IF_ERROR(telemetry_.Eval(*last_eval_));
  return CheckEvaluation(ignores_all_labels);
}

// Gives the schedule the latest evaluation's loss.
absl::Status TrainingLoop::FollowPlateau() {
  if (!plateau_.has_value() || !last_eval_.has_value() || !plateau_->Observe(last_eval_->loss())) {
    return absl::OkStatus();
  }
  engine_->set_rate_factor(plateau_->state().rate_factor);
  const std::string rate = absl::StrCat(plateau_->learning_rate());
  const std::string best = absl::StrCat(plateau_->state().best_loss);
  return telemetry_.Event(Event::LEARNING_RATE_FELL, step_,
                          absl::StrCat("the learning rate fell to ", rate, ": for over ", plan_.plateau->patience_evals,
                                       " evaluations the loss did not come below ", best),
                          {{"learning_rate", rate}, {"best_loss", best}});
}

// Draws and reports a sample if the job asks for one. If an order to leave interrupts it, the sample stays pending.
absl::Status TrainingLoop::TellSample() {
  owes_sample_ = false;
  if (!plan_.sample.has_value()) {
    return absl::OkStatus();
  }
  const StepsUnderWay::Instant begin = Now();
  const auto is_told_to_leave = [this] { return context_.link.leave().has_value(); };
  AMPD_ASSIGN_OR_RETURN(
      std::optional<v1::Sample> sample,
      DrawSample(*plan_.sample, *plan_.engine.generator, plan_.engine.seed, step_, *engine_, is_told_to_leave));
  owes_sample_ = !sample.has_value();
  if (owes_sample_) {
    return absl::OkStatus();
  }
  return telemetry_.Sample(*std::move(sample), std::chrono::duration<double>(Now() - begin).count());
}

absl::StatusOr<Outcome> TrainingLoop::Leave(const internal::LeaveAttempt& leave) {
  ReportState(v1::Attempt::STOPPING);
  if (leave.desired() != v1::Job::CANCEL && !MayRollBack()) {
    AMPD_RETURN_IF_ERROR(CheckState());
  }
  // While the numbers look bad, the last good checkpoint stays the newest: a resumed run would roll back to it anyway.
  if (leave.desired() != v1::Job::CANCEL && IsGood()) {
    AMPD_RETURN_IF_ERROR(Checkpoint());
    AMPD_RETURN_IF_ERROR(checkpoint_writer_.Wait());
  }
  Outcome outcome;
  outcome.set_kind(Outcome::LEFT);
  outcome.set_reason(leave.reason());
  return outcome;
}

void TrainingLoop::ReportState(v1::Attempt::State state) {
  internal::TrainerState report;
  report.set_state(state);
  report.set_step(step_);
  report.set_precision(plan_.policy.preset);
  report.set_emulated(plan_.policy.emulated());
  report.set_total_steps(plan_.total_steps);
  context_.link.ReportState(report);
}

v1::FinalMetrics TrainingLoop::metrics() const {
  v1::FinalMetrics metrics;
  metrics.set_train_loss(train_loss_);
  if (generator_loss_.has_value()) {
    metrics.set_generator_loss(*generator_loss_);
  }
  if (last_eval_.has_value()) {
    AddEvalPoint(*last_eval_, &metrics);
  }
  metrics.set_steps_per_second(under_way_.steps_per_second());
  metrics.set_peak_memory_bytes(GetMemory(plan_.engine.device).peak_bytes);
  if (engine_ != nullptr) {
    metrics.set_final_loss_scale(engine_->scaler().scale());
    metrics.set_skipped_steps(engine_->skipped_steps());
  }
  metrics.set_emulated(plan_.policy.emulated());
  if (const auto newest = checkpoint_writer_.newest(); newest.has_value() && newest->step() == step_) {
    metrics.set_state_hash(newest->state_hash());
  }
  metrics.set_num_threads(plan_.num_threads);
  return metrics;
}

}  // namespace ampd::train
