#include "worker/train/plan/attempt_plan.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "base/formats/sha256.h"
#include "base/status_macros.h"
#include "data/data_file.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "graph/batch_rules.h"
#include "graph/heads.h"
#include "graph/losses.h"
#include "graph/passes.h"
#include "graph/vocabulary.h"
#include "models/models.h"
#include "models/samples.h"
#include "precision/cost/memory.h"
#include "precision/loss_scale_message.h"
#include "precision/optimizer_kind.h"
#include "worker/train/plan/array_source.h"
#include "worker/train/plan/data_source.h"
#include "worker/train/plan/engine_options.h"
#include "worker/train/plan/fields.h"
#include "worker/train/plan/labels.h"
#include "worker/train/plan/model_source.h"
#include "worker/train/plan/spec_error.h"
#include "worker/train/plan/text_source.h"
#include "worker/train/sample/sample_drawing.h"

namespace ampd::train {
namespace {

absl::Status AsSpecError(const absl::Status& status) { return SpecError(std::string(status.message())); }

// The serialized message; equal for equal messages.
std::string BytesOf(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

// Hashes everything that determines the numbers of a job, and nothing that may differ between two attempts of the job.
std::string Digest(const internal::StartAttempt& start) {
  v1::JobSpec spec = start.spec();
  spec.clear_name();
  spec.clear_labels();
  spec.clear_priority();
  spec.clear_queue();
  spec.clear_sample();
  return Sha256Hex(absl::StrCat(BytesOf(spec), "\n", start.precision(), "\n", BytesOf(start.loss_scale())));
}

int NumThreads(const internal::StartAttempt& start) {
  const int wanted = start.spec().train().num_threads();
  const int device = start.device().num_threads();
  const int all = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return wanted > 0 ? wanted : device > 0 ? device : all;
}

void NoteReading(const data::Dataset& data, const std::string& field, AttemptPlan& plan) {
  if (!data.note().empty()) {
    plan.data_notes.push_back(absl::StrCat(field, ".tokens: ", data.note()));
  }
  if (data.num_cut() > 0) {
    plan.policy.warnings.push_back(absl::StrCat(field, ".jsonl: ", data.num_cut(), " of ", data.size(),
                                                " texts are longer than sequence_length and were cut"));
  }
}

absl::Status PlanLength(const v1::JobSpec& spec, AttemptPlan& plan) {
  if (spec.data().batch_size() < 1) {
    return SpecError("data.batch_size must be positive");
  }
  if (plan.train.size() < 1) {
    return SpecError("data.train has no sample");
  }
  if (!v1::DataSpec::LastBatch_IsValid(spec.data().last_batch())) {
    return SpecError(
        absl::StrCat("data.last_batch is ", spec.data().last_batch(), ", which this worker does not know"));
  }
  plan.sampler = {
      .num_samples = plan.train.size(),
      .batch_size = spec.data().batch_size(),
      .seed = spec.train().seed(),
      .keep_order = spec.data().keep_order(),
      .last_batch = spec.data().last_batch() == v1::DataSpec::PAD ? data::LastBatch::kPad : data::LastBatch::kDrop};
  const int64_t batch = plan.sampler.num_in_batch();
  if (batch < plan.sampler.batch_size) {
    plan.policy.warnings.push_back(absl::StrCat("data.batch_size is ", plan.sampler.batch_size, ", but data.train has ",
                                                plan.train.size(), " samples; each step trains with ", batch));
  }
  plan.num_micro_batches = std::max(spec.train().gradient_accumulation(), 1);
  if (batch % plan.num_micro_batches != 0) {
    return SpecError(absl::StrCat("a batch of ", batch, " samples can't be cut into ", plan.num_micro_batches,
                                  " equal micro-batches"));
  }
  const int64_t micro_batch = batch / plan.num_micro_batches;
  if (const std::string fault = graph::FaultOfBatchRange(plan.model, micro_batch); !fault.empty()) {
    return SpecError(absl::StrCat("data.batch_size: a micro-batch has ", micro_batch, " samples: ", fault,
                                  "; change data.batch_size or train.gradient_accumulation, or export the model for "
                                  "such batches"));
  }
  if (const std::string fault = graph::FaultOfBatch(plan.model, micro_batch); !fault.empty()) {
    return SpecError(absl::StrCat("data.batch_size: ", fault, "; take more samples in a micro-batch or larger images"));
  }
  plan.eval_batch_size = spec.data().eval_batch_size() > 0 ? spec.data().eval_batch_size() : micro_batch;
  plan.total_steps = spec.train().length_case() == v1::TrainSpec::kEpochs
                         ? spec.train().epochs() * plan.sampler.num_batches()
                         : spec.train().steps();
  return plan.total_steps > 0 ? absl::OkStatus() : SpecError("train.steps must be positive");
}

// Checks that the model accepts both batch sizes of an evaluation: that of a full batch, and that of a smaller last
// batch.
absl::Status CheckEvalBatches(const AttemptPlan& plan) {
  if (!plan.eval.has_value() || !plan.imported.has_value()) {
    return absl::OkStatus();
  }
  const int64_t rest = plan.eval->size() % plan.eval_batch_size;
  for (const int64_t batch : {std::min(plan.eval_batch_size, plan.eval->size()), rest}) {
    const std::string fault = batch == 0 ? "" : graph::FaultOfBatch(plan.imported->eval, batch);
    if (!fault.empty()) {
      return SpecError(absl::StrCat("data.eval_batch_size: ", fault, "; ", plan.eval->size(),
                                    " samples of data.eval are evaluated in batches of ", plan.eval_batch_size));
    }
  }
  return absl::OkStatus();
}

// The program that evaluates the model. An imported model has its own.
graph::Graph EvaluationOf(const AttemptPlan& plan) {
  return plan.imported.has_value() ? plan.imported->eval : graph::EvalProgram(plan.model);
}

absl::Status PlanAugmentation(const v1::JobSpec& spec, AttemptPlan& plan) {
  const v1::Augmentation& augment = spec.data().augment();
  plan.augmentation = {.crop_padding = augment.crop_padding(), .flip = augment.flip(), .seed = spec.train().seed()};
  if (plan.augmentation.enabled() && plan.train.image_shape().empty()) {
    return SpecError(absl::StrCat("data.augment changes images; a sample of data.train is ",
                                  plan.train.is_text() ? "text" : "a list of numbers without height and width"));
  }
  return absl::OkStatus();
}

absl::Status PlanSample(const v1::JobSpec& spec, AttemptPlan& plan) {
  if (!spec.has_sample()) {
    return absl::OkStatus();
  }
  auto generator = models::BuildGenerator(spec);
  if (!generator.ok()) {
    return AsSpecError(generator.status());
  }
  if (const absl::Status found = CheckSample(spec.sample(), *generator); !found.ok()) {
    return AsSpecError(found);
  }
  plan.sample = spec.sample();
  plan.engine.generator = *std::move(generator);
  return absl::OkStatus();
}

// Checks that evaluations yield the metric that early stopping watches. The server makes the same check, except if only
// the worker has the model's file.
absl::Status PlanEarlyStopping(const v1::JobSpec& spec, AttemptPlan& plan) {
  if (!spec.train().has_early_stopping()) {
    return absl::OkStatus();
  }
  const EarlyStoppingConfig config = EarlyStoppingOf(spec.train().early_stopping());
  if (config.patience < 1 || !plan.eval.has_value() || plan.eval_every_steps < 1) {
    return SpecError("train.early_stopping needs data.eval, eval.every_steps and a patience of at least 1");
  }
  const std::optional<graph::Head> head = graph::HeadOf(plan.model);
  const bool has_accuracy = head.has_value() && graph::HasAccuracy(*head);
  if (config.metric == v1::EarlyStopping::EVAL_ACCURACY && !has_accuracy) {
    return SpecError(
        "train.early_stopping.metric is EVAL_ACCURACY, but the model's head has no accuracy; use EVAL_LOSS");
  }
  plan.early_stopping = config;
  return absl::OkStatus();
}

absl::Status PlanSegments(const v1::JobSpec& spec, const v1::Device& device, AttemptPlan& plan) {
  const int64_t budget = spec.train().memory_budget_bytes();
  if (budget == 0) {
    plan.engine.checkpoint_segments = {spec.train().checkpoint_segments().begin(),
                                       spec.train().checkpoint_segments().end()};
    return absl::OkStatus();
  }
  const graph::Graph eval_model = EvaluationOf(plan);
  AMPD_ASSIGN_OR_RETURN(const auto programs,
                        precision::TrainedPrograms::Of(plan.model, spec.data().has_eval() ? &eval_model : nullptr));
  const auto choice = precision::ChooseSegments(programs, plan.policy, precision::TrainingSetup::Of(spec, device),
                                                plan.sampler.num_in_batch() / plan.num_micro_batches, budget);
  if (!choice.ok()) {
    return AsSpecError(choice.status());
  }
  plan.engine.checkpoint_segments = choice->segments;
  if (!choice->fits) {
    plan.policy.warnings.push_back(absl::StrCat(
        "train.memory_budget_bytes is ", budget, "; training needs ", choice->estimate.total(), " with ",
        choice->segments.size(),
        " blocks that run again in the backward pass, and no other number of them that was tried needs less"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<precision::ResolvedPolicy> ResolvePrecision(const internal::StartAttempt& start,
                                                           const graph::Graph& model, const PrecisionRaise& raise) {
  AMPD_ASSIGN_OR_RETURN(const graph::Graph program, graph::TrainedGraph(model));
  v1::PrecisionPolicy policy = start.spec().precision();
  if (!start.precision().empty()) {
    policy.set_preset(start.precision());
    policy.clear_prefer();
  }
  const precision::OptimizerKind kind = precision::KindOf(start.spec());
  auto resolved = ResolveRaised(policy, raise, program, start.device(), kind);
  if (!resolved.ok()) {
    return AsSpecError(resolved.status());
  }
  if (start.has_loss_scale() && raise.preset.empty()) {
    const auto pinned = precision::LossScaleOf(start.loss_scale());
    if (!pinned.ok()) {
      return AsSpecError(pinned.status());
    }
    resolved->loss_scale = *pinned;
  }
  return resolved;
}

namespace {

// Plans the part that training and predicting have in common: the model, the policy, and the data that the attempt
// reads.
absl::StatusOr<AttemptPlan> PlanModelAndData(const internal::StartAttempt& start, DataUse use, Locator locate) {
  const v1::JobSpec& spec = start.spec();
  AMPD_ASSIGN_OR_RETURN(std::optional<ImportedModel> imported, FindImportedModel(start, locate));
  auto model = imported.has_value() ? imported->train : models::BuildModel(spec);
  if (!model.ok()) {
    return AsSpecError(model.status());
  }
  auto policy = ResolvePrecision(start, *model, /*raise=*/{});
  AMPD_RETURN_IF_ERROR(policy.status());
  if (model->inputs().empty() || (!graph::HeadOf(*model).has_value() && graph::LossesOf(*model).empty())) {
    return SpecError("the model has no input, or no output that is a loss or that a head takes");
  }
  AMPD_ASSIGN_OR_RETURN(data::Dataset samples, OpenData(start, models::MainSourceOf(spec), *model, use));
  AMPD_RETURN_IF_ERROR(use == DataUse::kPrediction ? CheckInputs(samples, *model) : CheckSamples(samples, *model));
  AttemptPlan plan{.model = *std::move(model),
                   .imported = std::move(imported),
                   .policy = *std::move(policy),
                   .raise = {},
                   .train = std::move(samples)};
  if (plan.imported.has_value()) {
    plan.policy.warnings.insert(plan.policy.warnings.end(), plan.imported->warnings.begin(),
                                plan.imported->warnings.end());
  }
  NoteReading(plan.train, FieldOf(use), plan);
  plan.num_threads = NumThreads(start);
  plan.spec_digest = Digest(start);
  return plan;
}

}  // namespace

absl::StatusOr<AttemptPlan> PlanAttempt(const internal::StartAttempt& start) {
  const v1::JobSpec& spec = start.spec();
  const auto locate = [&](const std::string& field, const std::string& path) { return LocateFile(start, field, path); };
  AMPD_ASSIGN_OR_RETURN(AttemptPlan plan, PlanModelAndData(start, DataUse::kTraining, locate));
  if (spec.data().has_eval()) {
    if (!graph::LossesOf(plan.model).empty()) {
      return SpecError("data.eval is set, and a model with losses of its own is not evaluated");
    }
    AMPD_ASSIGN_OR_RETURN(plan.eval, OpenData(start, spec.data().eval(), plan.model, DataUse::kEvaluation));
    AMPD_RETURN_IF_ERROR(CheckSamples(*plan.eval, plan.model));
    NoteReading(*plan.eval, FieldOf(DataUse::kEvaluation), plan);
  }
  AMPD_RETURN_IF_ERROR(PlanLength(spec, plan));
  AMPD_RETURN_IF_ERROR(CheckEvalBatches(plan));
  AMPD_RETURN_IF_ERROR(PlanAugmentation(spec, plan));
  AMPD_ASSIGN_OR_RETURN(plan.engine, EngineOptionsOf(spec, plan.model, plan.total_steps));
  if (plan.imported.has_value()) {
    plan.engine.eval_model = plan.imported->eval;
  }
  if (graph::HeadOf(plan.model) != graph::Head::kOwnLoss) {
    plan.engine.pixel_scales = plan.train.pixel_scales();
  }
  plan.ignored_label = graph::IgnoredLabelOf(plan.model);
  plan.has_label_count = plan.model.FindOutput(graph::kLabelCount).has_value();
  plan.noise = {.shape = NoiseShapeOf(plan.model), .seed = spec.train().seed()};
  AMPD_RETURN_IF_ERROR(PlanSample(spec, plan));
  plan.plateau = PlateauOf(spec.schedule());
  AMPD_RETURN_IF_ERROR(PlanSegments(spec, start.device(), plan));
  plan.eval_every_steps = spec.eval().every_steps();
  AMPD_RETURN_IF_ERROR(PlanEarlyStopping(spec, plan));
  plan.checkpoint_every_steps = spec.checkpoint().every_steps();
  plan.keep_best = spec.checkpoint().keep_best();
  plan.on_divergence = spec.on_divergence();
  plan.lower_again_after_steps = spec.lower_again_after_steps();
  plan.replay_skipped = spec.train().replay_skipped();
  if (plan.replay_skipped && plan.policy.loss_scale.kind != precision::LossScaleConfig::Kind::kDynamic) {
    plan.policy.warnings.push_back("train.replay_skipped does nothing: no loss scale falls when a step is skipped");
  }
  AMPD_ASSIGN_OR_RETURN(plan.initial_weights, ReadInitialWeights(start, locate));
  return plan;
}

absl::StatusOr<AttemptPlan> PlanPrediction(const internal::StartAttempt& start) {
  const int64_t batch_size = start.spec().data().batch_size();
  const auto locate = [&](const std::string& field, const std::string& path) { return LocateFile(start, field, path); };
  AMPD_ASSIGN_OR_RETURN(AttemptPlan plan, PlanModelAndData(start, DataUse::kPrediction, locate));
  if (batch_size < 1) {
    return SpecError("data.batch_size must be positive");
  }
  if (plan.train.size() < 1) {
    return SpecError("data.predict has no sample");
  }
  const auto program = graph::WithPredictions(EvaluationOf(plan));
  if (!program.ok()) {
    return AsSpecError(program.status());
  }
  for (const int64_t batch : {std::min(batch_size, plan.train.size()), plan.train.size() % batch_size}) {
    if (const std::string fault = batch == 0 ? "" : graph::FaultOfBatch(*program, batch); !fault.empty()) {
      return SpecError(absl::StrCat("data.batch_size: ", fault, "; ", plan.train.size(),
                                    " samples of data.predict are predicted in batches of ", batch_size));
    }
  }
  plan.sampler = {.num_samples = plan.train.size(), .batch_size = batch_size, .keep_order = true};
  plan.eval_batch_size = batch_size;
  plan.total_steps = (plan.train.size() - 1) / batch_size + 1;
  plan.engine.predicts = true;
  if (plan.imported.has_value()) {
    plan.engine.eval_model = plan.imported->eval;
  }
  AMPD_ASSIGN_OR_RETURN(plan.initial_weights, ReadInitialWeights(start, locate));
  return plan;
}

}  // namespace ampd::train
