#include "worker/train/loop/training_loop.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "worker/train/device/compute_device.h"
#include "worker/train/loop/periodic.h"
#include "worker/train/loop/run_sample.h"
#include "worker/train/loop/run_summary.h"
#include "worker/train/loop/step_numbers.h"
#include "worker/train/plan/model_source.h"
#include "worker/train/report/trainer_log.h"

namespace ampd::train {
namespace {

// An estimate of the profiler's events per node of the model in a step: the node's op and the ops that it calls,
// forward and backward. The profiler keeps all events in memory, at about 200 bytes each.
constexpr int64_t kEventsOfANode = 6;
constexpr int64_t kMostProfileEvents = 1'000'000;

}  // namespace

using v1::Event;
using v1::Outcome;

TrainingLoop::TrainingLoop(AttemptPlan plan, const Context& context)
    : context_(context),
      telemetry_(context.outbox, context.start.key().attempt()),
      run_(std::move(plan), context.start, telemetry_),
      steps_(run_, context.lease, device_watch_, context.step_log),
      finite_checks_(run_),
      evaluations_(run_, finite_checks_),
      checkpoints_(context.checkpoints, EarlierCheckpoints(context.start),
                   [&link = context.link](const v1::Checkpoint& checkpoint, uint64_t after_sequence) {
                     LogLine(absl::StrFormat("step %d: checkpoint %s, %d bytes", checkpoint.step(), checkpoint.path(),
                                             checkpoint.size_bytes()));
                     link.ReportCheckpoint(checkpoint, after_sequence);
                   }),
      recovery_actions_(run_, steps_.in_flight(), checkpoints_),
      profiler_(context.scratch_folder, run_.plan().engine.device.device.is_cuda()) {}

absl::StatusOr<Outcome> TrainingLoop::Run() {
  AMPD_RETURN_IF_ERROR(Prepare());
  device_watch_.Begin(run_.plan().engine.device, context_.start.device());
  has_begun_ = true;
  ReportState(v1::Attempt::RUNNING);
  while (!is_done()) {
    AMPD_RETURN_IF_ERROR(checkpoints_.Check());
    if (const auto leave = context_.link.leave(); leave.has_value()) {
      AMPD_RETURN_IF_ERROR(EndSteps());
      return Leave(*leave);
    }
    AMPD_RETURN_IF_ERROR(React(run_.recovery().BeforeStep()));
    AMPD_RETURN_IF_ERROR(RunPendingActions());
    if (run_.progress().sample_pending || is_done()) {
      continue;  // The top of the loop obeys an order to leave, and sees that training has ended.
    }
    AMPD_RETURN_IF_ERROR(ApplyLossScale());
    AMPD_RETURN_IF_ERROR(FollowProfile());
    const int64_t number = run_.step() + static_cast<int64_t>(steps_.in_flight().size()) + 1;
    profiler_.Run(number, [this] { steps_.Begin(/*reports_gradients=*/context_.link.TakeGradientRequest()); });
    while (steps_.in_flight().size() > steps_.MaxInFlight()) {
      AMPD_RETURN_IF_ERROR(EndStep());
    }
    if (!rolled_back_ && steps_.in_flight().empty()) {
      AMPD_RETURN_IF_ERROR(run_.step() < run_.plan().total_steps ? RunPeriodicActions() : CheckState());
    }
    rolled_back_ = false;
  }
  return Finish();
}

v1::FinalMetrics TrainingLoop::metrics() const {
  v1::FinalMetrics metrics = FinalMetricsOf(run_, evaluations_.last());
  metrics.set_steps_per_second(steps_.in_flight().steps_per_second());
  if (run_.has_engine()) {
    metrics.set_flops_per_step(run_.flops().flops);
    device_watch_.AddTo(run_.plan().engine.device, run_.engine().graph_bytes(), &metrics);
  }
  if (run_.flops().seconds_at_peak.has_value() && metrics.steps_per_second() > 0) {
    metrics.set_mfu(*run_.flops().seconds_at_peak * metrics.steps_per_second());
  }
  if (const auto newest = checkpoints_.newest(); newest.has_value() && newest->step() == run_.step()) {
    metrics.set_state_hash(newest->state_hash());
  }
  return metrics;
}

absl::Status TrainingLoop::Prepare() {
  at::set_num_threads(run_.plan().num_threads);
  AMPD_RETURN_IF_ERROR(ResumesTraining(context_.start) ? Resume() : run_.Begin());
  for (const std::string& warning : run_.plan().policy.warnings) {
    AMPD_RETURN_IF_ERROR(telemetry_.Event(Event::WARNING, run_.step(), warning));
  }
  for (const std::string& note : run_.plan().data_notes) {
    AMPD_RETURN_IF_ERROR(telemetry_.Event(Event::DATA_READ, run_.step(), note));
  }
  run_.batcher().Start();
  ResetPeakMemory(run_.plan().engine.device);
  return absl::OkStatus();
}

absl::Status TrainingLoop::Resume() {
  const v1::Checkpoint& checkpoint = context_.start.start_from();
  AMPD_ASSIGN_OR_RETURN(LoadedCheckpoint loaded,
                        context_.checkpoints.Load(checkpoint.path(), checkpoint.manifest_sha256()));
  AMPD_RETURN_IF_ERROR(run_.Resume(loaded));
  AMPD_RETURN_IF_ERROR(finite_checks_.CheckRestored());
  stops_early_ = run_.has_stopped_early() && IsDue(run_.step(), run_.plan().eval_every_steps);
  return run_.WarnIfElsewhere(loaded);
}

// Runs the evaluation or sample that an earlier attempt left pending at the step of its last checkpoint.
absl::Status TrainingLoop::RunPendingActions() {
  if (std::exchange(run_.progress().evaluation_pending, false)) {
    AMPD_RETURN_IF_ERROR(RunPeriodicActions());
    rolled_back_ = false;
    return absl::OkStatus();
  }
  return run_.progress().sample_pending ? DrawSampleOf(run_, [this] { return must_leave(); }) : absl::OkStatus();
}

absl::Status TrainingLoop::ApplyLossScale() {
  const v1::LiveLossScale settings = context_.link.live_loss_scale();
  if (settings.number() <= run_.progress().applied_order) {
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(EndSteps());
  rolled_back_ = false;  // The settings apply to the engine that is in use after the roll-back.
  return run_.ApplyLossScale(settings);
}

// Begins a requested profile, or ends the current profile if it has all of its steps.
absl::Status TrainingLoop::FollowProfile() {
  if (profiler_.is_recording()) {
    return profiler_.num_steps() >= profile_steps_ ? EndProfile() : absl::OkStatus();
  }
  profile_steps_ = context_.link.TakeProfileRequest();
  if (profile_steps_ == 0) {
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(EndSteps());
  rolled_back_ = false;  // The profile begins after the roll-back.
  const AttemptPlan& plan = run_.plan();
  const int64_t events = kEventsOfANode * std::max<int64_t>(std::ssize(plan.model.nodes()), 1) * plan.num_micro_batches;
  profile_steps_ = static_cast<int>(std::clamp<int64_t>(kMostProfileEvents / events, 1, profile_steps_));
  LogLine(absl::StrFormat("step %d: profiling %d steps", run_.step(), profile_steps_));
  const absl::Status begun = profiler_.Begin();
  return begun.ok() ? begun : ReportNoProfile(begun);
}

// Reports why the profile could not be made. The attempt continues without it.
absl::Status TrainingLoop::ReportNoProfile(const absl::Status& why) {
  return telemetry_.Event(Event::PROFILED, run_.step(), absl::StrCat("the steps were not profiled: ", why.message()),
                          {{"steps", "0"}, {"files", "0"}, {"bytes", "0"}});
}

// Stores the profile.
absl::Status TrainingLoop::EndProfile() {
  AMPD_RETURN_IF_ERROR(EndSteps());
  rolled_back_ = false;
  const absl::StatusOr<std::string> profile = profiler_.End();
  if (!profile.ok()) {
    return ReportNoProfile(profile.status());
  }
  const int64_t last = profiler_.last_step();  // run_.step() may be lower: reading the steps may have rolled back.
  std::vector<v1::Sample> files = ProfileSamples(*profile, last);
  const size_t num_files = files.size();
  for (v1::Sample& file : files) {
    AMPD_RETURN_IF_ERROR(telemetry_.File(std::move(file)));
  }
  return telemetry_.Event(Event::PROFILED, last,
                          absl::StrFormat("profiled %d step%s, up to step %d", profiler_.num_steps(),
                                          profiler_.num_steps() == 1 ? "" : "s", last),
                          {{"steps", absl::StrCat(profiler_.num_steps())},
                           {"files", absl::StrCat(num_files)},
                           {"bytes", absl::StrCat(profile->size())}});
}

// Reads the oldest step in flight, reports it and reacts to it.
absl::Status TrainingLoop::EndStep() {
  StepRunner::EndedStep step = steps_.Await();
  device_watch_.Update();
  AMPD_RETURN_IF_ERROR(steps_.Report(step));
  ReportState(v1::Attempt::RUNNING);
  AMPD_RETURN_IF_ERROR(steps_.ReportActivations(step));
  const precision::ResolvedPolicy& policy = run_.plan().policy;
  const Decision decision = run_.recovery().AfterStep(NumbersOf(run_, step.result, step.begun.place), policy);
  if (decision.action == Decision::Action::kReplay) {
    AMPD_RETURN_IF_ERROR(steps_.Replay(step));
  }
  AMPD_RETURN_IF_ERROR(recovery_actions_.Report(decision));
  if (!decision.has_diverged()) {
    AMPD_RETURN_IF_ERROR(run_.reports().ReportLostPrecision(run_.step(), step.result, policy));
  }
  steps_.Recycle(std::move(step));
  return React(decision);
}

// Reads every step in flight. If a result causes a roll-back, the remaining steps are dropped unread.
absl::Status TrainingLoop::EndSteps() {
  while (!steps_.in_flight().empty()) {
    AMPD_RETURN_IF_ERROR(EndStep());
  }
  return absl::OkStatus();
}

absl::Status TrainingLoop::React(const Decision& decision) {
  AMPD_RETURN_IF_ERROR(recovery_actions_.Act(decision));
  if (decision.action == Decision::Action::kRollBack) {
    rolled_back_ = true;
    evaluations_.Forget();
    finite_checks_.Forget();
  }
  return absl::OkStatus();
}

absl::Status TrainingLoop::CheckState() {
  const Decision decision = finite_checks_.CheckState();
  AMPD_RETURN_IF_ERROR(recovery_actions_.Report(decision));
  return React(decision);
}

// Runs the actions that are due between two steps.
absl::Status TrainingLoop::RunPeriodicActions() {
  const AttemptPlan& plan = run_.plan();
  const bool evaluates = IsDue(run_.step(), plan.eval_every_steps);
  const bool saves = IsDue(run_.step(), plan.checkpoint_every_steps);
  const bool draws = IsDue(run_.step(), plan.sample_every_steps());
  if (profiler_.is_recording() && (evaluates || saves || draws)) {
    AMPD_RETURN_IF_ERROR(EndProfile());  // A profile must contain only steps.
  }
  if (evaluates || saves) {
    AMPD_RETURN_IF_ERROR(CheckState());
    if (rolled_back_) {
      return absl::OkStatus();
    }
  }
  if (evaluates) {
    AMPD_RETURN_IF_ERROR(evaluations_.Evaluate());
    AMPD_RETURN_IF_ERROR(evaluations_.FollowPlateau());
    evaluations_.FollowEarlyStopping();
    stops_early_ = run_.has_stopped_early() && !SavedBeyond();
    if (stops_early_) {
      return absl::OkStatus();  // Finish() makes the checkpoint and draws the sample.
    }
  }
  if (draws) {
    AMPD_RETURN_IF_ERROR(DrawSampleOf(run_, [this] { return must_leave(); }));
    if (run_.progress().sample_pending) {
      return absl::OkStatus();  // Leave() makes the checkpoint.
    }
  }
  return (saves || evaluations_.IsBest()) && finite_checks_.IsGood() ? SaveCheckpoint() : absl::OkStatus();
}

// Copies the state; the writer's thread writes the copy as a checkpoint.
absl::Status TrainingLoop::SaveCheckpoint() {
  v1::Checkpoint checkpoint;
  checkpoint.set_attempt(context_.start.key().attempt());
  checkpoint.set_step(run_.step());
  if (const v1::EvalPoint* const eval = evaluations_.current(); eval != nullptr) {
    checkpoint.set_eval_loss(eval->loss());
  }
  return checkpoints_.Save(std::move(checkpoint), run_.Identity(), context_.outbox.last_sequence(),
                           [this](amp::EngineState reuse) {
                             if (evaluations_.IsBest()) {
                               run_.progress().best_eval_loss = evaluations_.current()->loss();
                             }
                             return run_.CaptureState(std::move(reuse));
                           });
}

// Fails the attempt if all steps are done but none updated a parameter. If on_divergence is WARN, only reports it.
absl::Status TrainingLoop::CheckTrained() {
  if (run_.engine().applied_steps() > 0) {
    return absl::OkStatus();
  }
  const Decision decision = run_.recovery().OnNothingTrained(run_.step(), FactsOf(run_));
  AMPD_RETURN_IF_ERROR(recovery_actions_.Report(decision));
  return React(decision);
}

// Whether the attempt has saved a checkpoint of a later step than the current one. This happens after a roll-back past
// a damaged checkpoint. The run then does not stop early here, because it could not save this step's checkpoint.
bool TrainingLoop::SavedBeyond() const {
  const std::optional<v1::Checkpoint> newest = checkpoints_.newest();
  return newest.has_value() && newest->step() > run_.step();
}

absl::StatusOr<Outcome> TrainingLoop::Finish() {
  if (profiler_.is_recording()) {
    AMPD_RETURN_IF_ERROR(EndProfile());
  }
  AMPD_RETURN_IF_ERROR(CheckTrained());
  Outcome outcome;
  outcome.set_kind(Outcome::FINISHED);
  outcome.set_reason(v1::Reason::SUCCEEDED_NORMALLY);
  if (run_.step() < run_.plan().total_steps) {
    // Report the early stop before saving the checkpoint. Then a stored checkpoint implies that this event is stored.
    const Finding stop = run_.early_stopping()->Describe(run_.step(), run_.plan().total_steps);
    AMPD_RETURN_IF_ERROR(telemetry_.Event(stop.kind, run_.step(), stop.message, stop.attributes));
    outcome.set_message(stop.message);
  }
  AMPD_RETURN_IF_ERROR(SaveCheckpoint());
  AMPD_RETURN_IF_ERROR(checkpoints_.Wait());  // If the evaluation fails, the trained state is already saved.
  AMPD_RETURN_IF_ERROR(evaluations_.EvaluateLast());
  AMPD_RETURN_IF_ERROR(DrawSampleOf(run_, [this] { return must_leave(); }));
  if (run_.progress().sample_pending) {
    return Leave(*context_.link.leave());
  }
  return outcome;
}

absl::StatusOr<Outcome> TrainingLoop::Leave(const internal::LeaveAttempt& leave) {
  ReportState(v1::Attempt::STOPPING);
  if (leave.desired() != v1::Job::CANCEL && !run_.recovery().may_roll_back()) {
    AMPD_RETURN_IF_ERROR(CheckState());
  }
  // Save no checkpoint while the numbers look bad. The newest checkpoint is then still a good one, and a resumed run
  // continues from there, as it would after a roll-back.
  if (leave.desired() != v1::Job::CANCEL && finite_checks_.IsGood()) {
    AMPD_RETURN_IF_ERROR(SaveCheckpoint());
    AMPD_RETURN_IF_ERROR(checkpoints_.Wait());
  }
  Outcome outcome;
  outcome.set_kind(Outcome::LEFT);
  outcome.set_reason(leave.reason());
  return outcome;
}

}  // namespace ampd::train
