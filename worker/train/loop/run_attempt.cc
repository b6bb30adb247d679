#include "worker/train/loop/run_attempt.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "ATen/Context.h"
#include "ATen/ops/matmul.h"
#include "ATen/ops/ones.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "c10/util/Exception.h"
#include "precision/loss_scale.h"
#include "torch/headeronly/version.h"
#include "worker/amp/label_counter.h"
#include "worker/executor/op_error.h"
#include "worker/train/checkpoint/checkpoint_store.h"
#include "worker/train/device/compute_device.h"
#include "worker/train/device/counting_allocator.h"
#include "worker/train/loop/attempt_loop.h"
#include "worker/train/loop/prediction_loop.h"
#include "worker/train/loop/training_loop.h"
#include "worker/train/plan/attempt_plan.h"
#include "worker/train/report/telemetry_writer.h"
#include "worker/train/report/trainer_log.h"

namespace ampd::train {
namespace {

using v1::Outcome;

// The first line of an exception's text, without the stack traces that LibTorch appends. The result is valid UTF-8, as
// texts of messages must be.
std::string FirstLine(const std::string& text) {
  constexpr size_t kMaxBytes = 500;
  return Shortened(ValidUtf8(text.substr(0, text.find('\n'))), kMaxBytes);
}

Outcome Failed(v1::Reason::Code reason, const std::string& message) {
  Outcome outcome;
  outcome.set_kind(Outcome::FAILED);
  outcome.set_reason(reason);
  outcome.set_message(FirstLine(message));
  return outcome;
}

// Whether an allocation failed. Only LibTorch's GPU allocator throws an exception of its own for this. Other failed
// allocations are recognized by the error's text.
bool IsOutOfMemory(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         absl::StrContains(text, "can't allocate memory") || absl::StrContains(text, "_STATUS_ALLOC_FAILED") ||
         absl::StrContains(text, "CUDA error: out of memory");
}

// Returns the message to the user about an out-of-memory error. `text`: LibTorch's message, of which the result repeats
// only the requested size.
std::string OutOfMemoryMessage(const std::string& text, const v1::JobSpec& spec) {
  const std::string before = "ried to allocate ";
  std::string message = "there is no memory left";
  if (const size_t at = text.find(before); at != std::string::npos) {
    const size_t begin = at + before.size();
    message = absl::StrCat("there is no memory for another allocation of ",
                           text.substr(begin, text.find(". ", begin) - begin));
  }
  if (spec.has_predict()) {
    return absl::StrCat(message, spec.data().batch_size() > 1 ? "; use a smaller data.batch_size, model or data set"
                                                              : "; use a smaller model or data set");
  }
  const bool can_cut = spec.data().batch_size() > std::max(1, spec.train().gradient_accumulation());
  return absl::StrCat(message, can_cut ? "; use a smaller data.batch_size, model or data set, or raise "
                                         "train.gradient_accumulation"
                                       : ", and each micro-batch has only one sample; use a smaller model or data "
                                         "set, or set train.checkpoint_segments");
}

bool IsDeviceError(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr || absl::StrContains(text, "CUDA error") ||
         absl::StrContains(text, "CUDNN_STATUS_");
}

// Whether an op received an index from the data, such as a token or a class, that is out of range.
bool IsBadIndex(const c10::Error& error) {
  const auto* of_op = dynamic_cast<const executor::OpError*>(&error);
  return dynamic_cast<const c10::IndexError*>(&error) != nullptr || (of_op != nullptr && of_op->is_index_error()) ||
         absl::StrContains(error.what_without_backtrace(), " is out of bounds");
}

Outcome Failed(const c10::Error& error, const v1::JobSpec& spec) {
  const std::string text = error.what_without_backtrace();
  if (IsOutOfMemory(error)) {
    return Failed(v1::Reason::OUT_OF_MEMORY, OutOfMemoryMessage(text, spec));
  }
  const v1::Reason::Code reason = ReasonForException(error);
  return Failed(reason, reason == v1::Reason::DATA_ERROR
                            ? absl::StrCat("a number in the data is outside the range that the model accepts, such as "
                                           "a token beyond its vocabulary: ",
                                           text)
                            : text);
}

Outcome Failed(const absl::Status& status) { return Failed(ReasonFor(status), std::string(status.message())); }

std::string Describe(const precision::LossScaleConfig& config) {
  switch (config.kind) {
    case precision::LossScaleConfig::Kind::kOff:
      return "no loss scaling";
    case precision::LossScaleConfig::Kind::kStatic:
      return absl::StrCat("a static loss scale of ", precision::LossScaleText(config.initial));
    case precision::LossScaleConfig::Kind::kDynamic:
      break;
  }
  return absl::StrCat("a dynamic loss scale that begins at ", precision::LossScaleText(config.initial),
                      " and grows every ", config.growth_interval, " steps");
}

void LogPlan(const AttemptPlan& plan, const amp::ComputeDevice& device) {
  LogLine(absl::StrCat("device ", NameOf(device), ", ", plan.num_threads, " threads, LibTorch ", TORCH_VERSION));
  LogLine(absl::StrCat("precision ", plan.policy.preset, plan.policy.emulated() ? " (emulated)" : "", ", ",
                       plan.policy.parameters.size(), " parameters, ", Describe(plan.policy.loss_scale)));
  LogLine(absl::StrCat("data: ", plan.train.size(), " samples ", plan.engine.predicts ? "to predict" : "for training",
                       plan.eval.has_value() ? absl::StrCat(", ", plan.eval->size(), " for evaluation") : ""));
  if (plan.engine.predicts) {
    LogLine(absl::StrCat(plan.total_steps, " batches of at most ", plan.eval_batch_size, " samples"));
  } else {
    LogLine(absl::StrCat(plan.total_steps, " steps of ", plan.sampler.num_in_batch(), " samples in ",
                         plan.num_micro_batches, plan.num_micro_batches == 1 ? " micro-batch" : " micro-batches"));
  }
  if (device.device.is_cuda()) {
    LogLine(device.graphs != nullptr ? "steps are replayed from a CUDA graph where possible"
                                     : absl::StrCat("steps are not recorded in a CUDA graph: ", device.why_no_graphs));
    if (!at::globalContext().deterministicAlgorithms()) {
      LogLine("algorithms need not be deterministic (train.deterministic is false)");
    }
  }
}

void LogEnd(const Outcome& outcome) {
  LogLine(absl::StrCat("ended at step ", outcome.last_step(), ": ", Outcome::Kind_Name(outcome.kind()), " (",
                       v1::Reason::Code_Name(outcome.reason()), ")", outcome.message().empty() ? "" : ": ",
                       outcome.message()));
}

absl::StatusOr<Outcome> RunFrom(const AttemptLoop::Context& context, const amp::ComputeDevice& device,
                                const TrainerOptions& options, std::unique_ptr<AttemptLoop>& loop) {
  const bool predicts = context.start.spec().has_predict();
  AMPD_ASSIGN_OR_RETURN(AttemptPlan plan, predicts ? PlanPrediction(context.start) : PlanAttempt(context.start));
  plan.engine.device = device;
  const v1::TrainSpec& train = context.start.spec().train();
  const bool deterministic = !train.has_deterministic() || train.deterministic();  // Unset if the server is older.
  UseAlgorithms(device, deterministic);
  if (!options.cuda_graph) {
    plan.engine.device.graphs = nullptr;
    plan.engine.device.why_no_graphs = "--no-cuda-graph";
  }
  if (!device.device.is_cuda()) {
    plan.engine.pixel_scales = at::Tensor();  // On a CPU the threads that gather batches convert bytes.
  }
  // On a CPU, the call that begins a step also computes it, so no step can run ahead.
  plan.steps_ahead = options.steps_ahead.value_or(device.device.is_cuda() ? 1 : 0);
  LogPlan(plan, plan.engine.device);
  if (predicts) {
    loop = std::make_unique<PredictionLoop>(std::move(plan), context);
  } else {
    loop = std::make_unique<TrainingLoop>(std::move(plan), context);
  }
  return loop->Run();
}

// Makes the attempt start from the next older checkpoint, and reports that the newer one is damaged. If no older
// checkpoint is left, returns an error that describes `damage`.
absl::Status TakeOlderCheckpoint(const absl::Status& damage, TelemetryOutbox& outbox, internal::StartAttempt& start) {
  if (start.older_checkpoints().empty()) {
    return Error(damage.code(), "CHECKPOINT_ERROR",
                 absl::StrCat(damage.message(),
                              "; the job has no older checkpoint that is undamaged: restore the files from a copy, or "
                              "start over with ampctl job clone"));
  }
  *start.mutable_start_from() = start.older_checkpoints(0);
  start.mutable_older_checkpoints()->DeleteSubrange(0, 1);
  const v1::Checkpoint& older = start.start_from();
  return TelemetryWriter(outbox, start.key().attempt())
      .Event(v1::Event::CHECKPOINT_DAMAGED, older.step(),
             absl::StrCat(damage.message(), "; the attempt begins with the older checkpoint ", older.path()),
             {{"damaged", DamagedCheckpoint(damage)}, {"taken", older.path()}});
}

Outcome Run(const AttemptLoop::Context& context, internal::StartAttempt& start,
            const absl::StatusOr<amp::ComputeDevice>& device, const TrainerOptions& options,
            std::unique_ptr<AttemptLoop>& loop) {
  if (!device.ok()) {
    return Failed(device.status());
  }
  if (const absl::Status placed = CheckPlacedHere(start.device(), *device); !placed.ok()) {
    return Failed(placed);
  }
  LogLine(absl::StrCat("attempt ", start.key().attempt(), " of job ", start.key().job_id()));
  const bool has_older = !start.older_checkpoints().empty();
  while (true) {
    auto outcome = RunFrom(context, *device, options, loop);
    if (outcome.ok()) {
      return *std::move(outcome);
    }
    const bool has_begun = loop != nullptr && loop->has_begun();
    if (has_begun || !has_older || DamagedCheckpoint(outcome.status()).empty()) {
      return Failed(outcome.status());
    }
    loop.reset();
    if (const absl::Status taken = TakeOlderCheckpoint(outcome.status(), context.outbox, start); !taken.ok()) {
      return Failed(taken);
    }
  }
}

// Opens the device and runs a first op on it, which initializes LibTorch's libraries.
absl::StatusOr<amp::ComputeDevice> OpenAndMultiply(const std::string& id) {
  try {
    AMPD_ASSIGN_OR_RETURN(const amp::ComputeDevice device, OpenComputeDevice(id));
    const at::Tensor ones = at::ones({8, 8}, at::TensorOptions().device(device.device));
    at::matmul(ones, ones);
    return device;
  } catch (const c10::Error& error) {
    return Error(absl::StatusCode::kFailedPrecondition, "DEVICE_ERROR", FirstLine(error.what_without_backtrace()));
  }
}

}  // namespace

absl::StatusOr<amp::ComputeDevice> WarmUp(const std::string& device_id) {
  InstallCountingAllocator();
  auto device = OpenAndMultiply(device_id);
  UseAlgorithms(device.ok() ? *device : amp::ComputeDevice(), /*deterministic=*/true);
  // Deterministic mode would also fill every new tensor with fixed values. That only exposes reads of uninitialized
  // memory, and it costs time.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  return device;
}

v1::Reason::Code ReasonForException(const c10::Error& error) {
  if (IsOutOfMemory(error)) {
    return v1::Reason::OUT_OF_MEMORY;
  }
  if (IsDeviceError(error)) {
    return v1::Reason::DEVICE_ERROR;
  }
  if (IsBadIndex(error)) {
    return v1::Reason::DATA_ERROR;
  }
  const bool is_of_model = dynamic_cast<const executor::OpError*>(&error) != nullptr ||
                           dynamic_cast<const amp::LabelCountError*>(&error) != nullptr;
  return is_of_model ? v1::Reason::SPEC_ERROR : v1::Reason::INTERNAL;
}

v1::Reason::Code ReasonFor(const absl::Status& status) {
  v1::Reason::Code reason = v1::Reason::INTERNAL;
  return v1::Reason::Code_Parse(ReasonOf(status), &reason) ? reason : v1::Reason::INTERNAL;
}

Outcome RunAttempt(internal::StartAttempt start, const absl::StatusOr<amp::ComputeDevice>& device, AgentLink& link,
                   TelemetryOutbox& outbox, const TrainerOptions& options) {
  CheckpointIo io;
  CheckpointStore checkpoints(start.checkpoint_root(), io);
  const AttemptLoop::Context context = {
      start, link, outbox, checkpoints, options.step_log, options.lease, options.scratch_folder};
  std::unique_ptr<AttemptLoop> loop;
  Outcome outcome;
  try {
    outcome = Run(context, start, device, options, loop);
  } catch (const c10::Error& error) {
    outcome = Failed(error, start.spec());
  } catch (const std::bad_alloc&) {
    outcome = Failed(v1::Reason::OUT_OF_MEMORY, OutOfMemoryMessage("", start.spec()));
  } catch (const std::exception& error) {
    outcome = Failed(v1::Reason::INTERNAL, error.what());
  }
  if (loop != nullptr) {
    loop->AwaitCheckpoint();
    outcome.set_last_step(loop->step());
    *outcome.mutable_final_metrics() = loop->metrics();
  } else {
    outcome.set_last_step(start.start_from().step());
  }
  outcome.set_last_sequence(outbox.last_sequence());
  LogEnd(outcome);
  return outcome;
}

}  // namespace ampd::train
