#include "worker/train/run_attempt.h"

#include <exception>
#include <memory>
#include <new>
#include <string>

#include "ATen/Context.h"
#include "ATen/ops/matmul.h"
#include "ATen/ops/ones.h"
#include "base/error.h"
#include "c10/util/Exception.h"
#include "worker/train/attempt_plan.h"
#include "worker/train/counting_allocator.h"
#include "worker/train/training_loop.h"

namespace ampd::train {
namespace {

using v1::Outcome;

// One line for people, without the stack traces that LibTorch appends.
std::string FirstLine(const std::string& text) {
  constexpr size_t kMaxBytes = 500;
  return text.substr(0, std::min(text.find('\n'), kMaxBytes));
}

Outcome Failed(v1::Reason reason, const std::string& message) {
  Outcome outcome;
  outcome.set_kind(Outcome::FAILED);
  outcome.set_reason(reason);
  outcome.set_message(FirstLine(message));
  return outcome;
}

// A CPU allocation that fails is a plain c10::Error; its text is the only mark.
bool IsOutOfMemory(const c10::Error& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         std::string(error.what_without_backtrace()).find("can't allocate memory") != std::string::npos;
}

Outcome Train(const TrainingLoop::Context& context, std::unique_ptr<TrainingLoop>& loop) {
  auto plan = PlanAttempt(context.start);
  if (!plan.ok()) {
    return Failed(ReasonFor(plan.status()), std::string(plan.status().message()));
  }
  loop = std::make_unique<TrainingLoop>(*std::move(plan), context);
  auto outcome = loop->Run();
  return outcome.ok() ? *outcome : Failed(ReasonFor(outcome.status()), std::string(outcome.status().message()));
}

}  // namespace

void WarmUp() {
  InstallCountingAllocator();
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  // Only a guard for reads of memory that nobody wrote; it would write each new tensor once more.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  const at::Tensor ones = at::ones({8, 8});
  at::matmul(ones, ones);
}

v1::Reason ReasonFor(const absl::Status& status) {
  v1::Reason reason = v1::INTERNAL;
  return v1::Reason_Parse(ReasonOf(status), &reason) ? reason : v1::INTERNAL;
}

Outcome RunAttempt(const internal::StartAttempt& start, AgentLink& link, TelemetryOutbox& outbox, StepLog& step_log) {
  CheckpointIo io;
  CheckpointStore checkpoints(start.checkpoint_root(), io);
  const TrainingLoop::Context context = {start, link, outbox, checkpoints, step_log};
  std::unique_ptr<TrainingLoop> loop;
  Outcome outcome;
  try {
    outcome = Train(context, loop);
  } catch (const c10::Error& error) {
    outcome = Failed(IsOutOfMemory(error) ? v1::OUT_OF_MEMORY : v1::INTERNAL, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    outcome = Failed(v1::OUT_OF_MEMORY, "no memory is left on the host");
  } catch (const std::exception& error) {
    outcome = Failed(v1::INTERNAL, error.what());
  }
  if (loop != nullptr) {
    outcome.set_last_step(loop->step());
    *outcome.mutable_final_metrics() = loop->metrics();
  } else {
    outcome.set_last_step(start.start_from().step());
  }
  outcome.set_last_sequence(outbox.last_sequence());
  return outcome;
}

}  // namespace ampd::train
