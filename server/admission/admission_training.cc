#include <optional>
#include <string>
#include <vector>

#include "graph/determinism.h"
#include "graph/heads.h"
#include "graph/segments.h"
#include "models/models.h"
#include "server/admission/admission_findings.h"

namespace ampd::server {
namespace {

constexpr size_t kMaxSegmentGlobs = 64;

void AdmitSgd(v1::SgdSpec* sgd, Findings& findings) {
  findings.Real("optimizer.sgd.learning_rate", sgd->learning_rate(), 0, 1e6, /*open_least=*/true);
  findings.Real("optimizer.sgd.momentum", sgd->momentum(), 0, 1, false, /*open_most=*/true);
  findings.Real("optimizer.sgd.weight_decay", sgd->weight_decay(), 0, 1e6);
  findings.Real("optimizer.sgd.dampening", sgd->dampening(), 0, 1);
  if (sgd->nesterov() && (sgd->momentum() <= 0 || sgd->dampening() != 0)) {
    findings.Wrong("optimizer.sgd.nesterov", "needs a momentum above 0 and a dampening of 0");
  }
}

// Checks the settings of AdamW or Adam, which have the same fields.
template <typename Spec>
void AdmitAdam(const std::string& field, double default_decay, Spec* spec, Findings& findings) {
  if (!spec->has_beta1()) spec->set_beta1(0.9);
  if (!spec->has_beta2()) spec->set_beta2(0.999);
  if (!spec->has_epsilon()) spec->set_epsilon(1e-8);
  if (!spec->has_weight_decay()) spec->set_weight_decay(default_decay);
  findings.Real(field + ".learning_rate", spec->learning_rate(), 0, 1e6, /*open_least=*/true);
  findings.Real(field + ".beta1", spec->beta1(), 0, 1, false, /*open_most=*/true);
  findings.Real(field + ".beta2", spec->beta2(), 0, 1, false, /*open_most=*/true);
  findings.Real(field + ".epsilon", spec->epsilon(), 0, 1, /*open_least=*/true);
  findings.Real(field + ".weight_decay", spec->weight_decay(), 0, 1e6);
}

void AdmitGroup(const std::string& field, const v1::ParameterGroup& group, Findings& findings) {
  if (group.match().empty()) {
    findings.Wrong(field + ".match", "must be a glob on parameter names");
  }
  if (!group.has_learning_rate() && !group.has_weight_decay()) {
    findings.Wrong(field, "must set a learning_rate or a weight_decay");
  }
  findings.Real(field + ".learning_rate", group.learning_rate(), 0, 1e6);
  findings.Real(field + ".weight_decay", group.weight_decay(), 0, 1e6);
}

void AdmitOptimizer(v1::OptimizerSpec* optimizer, Findings& findings) {
  switch (optimizer->kind_case()) {
    case v1::OptimizerSpec::kSgd:
      AdmitSgd(optimizer->mutable_sgd(), findings);
      break;
    case v1::OptimizerSpec::kAdamw:
      AdmitAdam("optimizer.adamw", 0.01, optimizer->mutable_adamw(), findings);
      break;
    case v1::OptimizerSpec::kAdam:
      AdmitAdam("optimizer.adam", 0, optimizer->mutable_adam(), findings);
      break;
    default:
      findings.Wrong("optimizer", "must have one of sgd, adamw, adam");
  }
  for (int i = 0; i < optimizer->groups_size(); ++i) {
    AdmitGroup(absl::StrCat("optimizer.groups[", i, "]"), optimizer->groups(i), findings);
  }
  findings.Real("optimizer.ema_decay", optimizer->ema_decay(), 0, 1, false, /*open_most=*/true);
}

void AdmitPlateau(const v1::EvalSpec& eval, v1::PlateauSchedule* plateau, Findings& findings) {
  if (!plateau->has_factor()) plateau->set_factor(0.1);
  if (!plateau->has_patience_evals()) plateau->set_patience_evals(10);
  if (!plateau->has_threshold()) plateau->set_threshold(1e-4);
  findings.Real("schedule.plateau.factor", plateau->factor(), 0, 1, /*open_least=*/true, /*open_most=*/true);
  findings.Range("schedule.plateau.patience_evals", plateau->patience_evals(), 0, 1'000'000);
  findings.Real("schedule.plateau.threshold", plateau->threshold(), 0, 1, false, /*open_most=*/true);
  findings.Range("schedule.plateau.cooldown_evals", plateau->cooldown_evals(), 0, 1'000'000);
  findings.Real("schedule.plateau.min_learning_rate", plateau->min_learning_rate(), 0, 1e6);
  if (eval.every_steps() == 0) {
    findings.Wrong("schedule.plateau",
                   "needs data.eval and eval.every_steps above 0, because it depends on the loss of evaluations");
  }
}

void AdmitSchedule(const v1::EvalSpec& eval, v1::ScheduleSpec* schedule, Findings& findings) {
  findings.Range("schedule.warmup_steps", schedule->warmup_steps(), 0, int64_t{1} << 40);
  switch (schedule->kind_case()) {
    case v1::ScheduleSpec::KIND_NOT_SET:
      schedule->mutable_constant();
      break;
    case v1::ScheduleSpec::kConstant:
      break;
    case v1::ScheduleSpec::kCosine:
      findings.Real("schedule.cosine.final_ratio", schedule->cosine().final_ratio(), 0, 1);
      break;
    case v1::ScheduleSpec::kStep:
      findings.Range("schedule.step.every_steps", schedule->step().every_steps(), 1, int64_t{1} << 40);
      findings.Real("schedule.step.factor", schedule->step().factor(), 0, 1e6, /*open_least=*/true);
      break;
    case v1::ScheduleSpec::kLinear:
      findings.Real("schedule.linear.final_ratio", schedule->linear().final_ratio(), 0, 1);
      break;
    case v1::ScheduleSpec::kPolynomial:
      findings.Real("schedule.polynomial.power", schedule->polynomial().power(), 0, 1e3, /*open_least=*/true);
      findings.Real("schedule.polynomial.final_ratio", schedule->polynomial().final_ratio(), 0, 1);
      break;
    case v1::ScheduleSpec::kPlateau:
      AdmitPlateau(eval, schedule->mutable_plateau(), findings);
      break;
  }
}

void AdmitLength(const v1::TrainSpec& train, Findings& findings) {
  switch (train.length_case()) {
    case v1::TrainSpec::kSteps:
      return findings.Range("train.steps", train.steps(), 1, int64_t{1} << 40);
    case v1::TrainSpec::kEpochs:
      return findings.Range("train.epochs", train.epochs(), 1, 1'000'000);
    default:
      findings.Wrong("train", "must have one of steps, epochs");
  }
}

// Refuses a deterministic job that may run on a GPU if one of its ops has no deterministic algorithm there: the job's
// first step on a GPU would fail.
void AdmitDeterminism(v1::JobSpec* spec, const graph::Graph* model, Findings& findings) {
  if (!spec->train().has_deterministic()) spec->mutable_train()->set_deterministic(true);
  if (!spec->train().deterministic() || spec->resources().kind() == v1::ResourceSpec::CPU || model == nullptr) {
    return;
  }
  if (const auto op = graph::FindNondeterministicOp(*model); op.has_value()) {
    findings.Wrong("train.deterministic",
                   absl::StrCat(op->what, " (", op->op, op->module_path.empty() ? "" : " in ", op->module_path,
                                ") has no deterministic algorithm on a GPU: set train.deterministic to false, or "
                                "resources.kind to CPU"));
  }
}

// Runs the trainer's own checks of the globs in checkpoint_segments.
void AdmitSegments(const v1::JobSpec& spec, const graph::Graph* model, Findings& findings) {
  const std::vector<std::string> globs(spec.train().checkpoint_segments().begin(),
                                       spec.train().checkpoint_segments().end());
  const int64_t budget = spec.train().memory_budget_bytes();
  findings.RangeOfBytes("train.memory_budget_bytes", budget, 0, int64_t{1} << 50);
  if (budget > 0 && !globs.empty()) {
    findings.Wrong("train.memory_budget_bytes", "excludes train.checkpoint_segments; give one of them");
  }
  if (globs.size() > kMaxSegmentGlobs) {
    return findings.Wrong("train.checkpoint_segments",
                          absl::StrCat("has ", globs.size(), " entries; at most ", kMaxSegmentGlobs));
  }
  if (globs.empty() || model == nullptr) {
    return;
  }
  for (const FieldViolation& violation : ViolationsOf(graph::WithCheckpointSegments(*model, globs).status())) {
    findings.Wrong(violation.field, violation.description);
  }
}

// Returns the head of the job's model; nullopt if only the worker knows it.
std::optional<graph::Head> HeadOf(const v1::ModelSpec& spec, const graph::Graph* model) {
  return model != nullptr ? graph::HeadOf(*model)
                          : graph::HeadNamed(v1::ExportedModelSpec::Head_Name(spec.exported().head()));
}

// Checks that evaluations yield the metric that early stopping watches.
void AdmitStopMetric(const v1::EarlyStopping& stopping, std::optional<graph::Head> head, Findings& findings) {
  if (!v1::EarlyStopping::Metric_IsValid(stopping.metric())) {
    return findings.Wrong("train.early_stopping.metric",
                          absl::StrCat("is ", stopping.metric(), "; must be EVAL_LOSS or EVAL_ACCURACY"));
  }
  if (stopping.metric() == v1::EarlyStopping::EVAL_ACCURACY && head.has_value() && !graph::HasAccuracy(*head)) {
    findings.Wrong("train.early_stopping.metric",
                   absl::StrCat("is EVAL_ACCURACY; an evaluation with the head ", std::string(graph::HeadName(*head)),
                                " has no accuracy, so use EVAL_LOSS"));
  }
}

void AdmitEarlyStopping(v1::JobSpec* spec, const graph::Graph* model, Findings& findings) {
  if (!spec->train().has_early_stopping()) {
    return;
  }
  if (models::IsGan(spec->model())) {
    return findings.Wrong("train.early_stopping", absl::StrCat("is set; model.", models::KindOf(spec->model()),
                                                               " is not evaluated, so there is no metric to watch"));
  }
  v1::EarlyStopping* const stopping = spec->mutable_train()->mutable_early_stopping();
  if (stopping->metric() == v1::EarlyStopping::METRIC_UNSPECIFIED) stopping->set_metric(v1::EarlyStopping::EVAL_LOSS);
  if (!stopping->has_patience()) stopping->set_patience(3);
  findings.Range("train.early_stopping.patience", stopping->patience(), 1, 1'000'000);
  findings.Real("train.early_stopping.min_delta", stopping->min_delta(), 0, kMaxReal);
  AdmitStopMetric(*stopping, HeadOf(spec->model(), model), findings);
  if (!spec->data().has_eval() || spec->eval().every_steps() == 0) {
    findings.Wrong("train.early_stopping",
                   "needs data.eval and eval.every_steps above 0, because it depends on the results of evaluations");
  }
}

void AdmitTrain(v1::JobSpec* spec, const graph::Graph* model, Findings& findings) {
  v1::TrainSpec* train = spec->mutable_train();
  AdmitLength(*train, findings);
  if (train->gradient_accumulation() == 0) train->set_gradient_accumulation(1);
  const int batch_size = spec->data().batch_size();
  findings.Range("train.gradient_accumulation", train->gradient_accumulation(), 1, 1 << 20);
  if (train->gradient_accumulation() >= 1 && batch_size >= 1 && batch_size % train->gradient_accumulation() != 0) {
    findings.Wrong("train.gradient_accumulation",
                   absl::StrCat("is ", train->gradient_accumulation(), "; must divide data.batch_size, ", batch_size));
  }
  if (train->has_clip_grad_norm()) {
    findings.Real("train.clip_grad_norm", train->clip_grad_norm(), 0, kMaxReal, /*open_least=*/true);
  }
  findings.Range("train.num_threads", train->num_threads(), 0, 1024);
  if (train->replay_skipped() && models::IsGan(spec->model())) {
    findings.Wrong("train.replay_skipped",
                   absl::StrCat("would train the networks of model.", models::KindOf(spec->model()),
                                " that were not skipped on the same batch twice; leave it out"));
  }
  AdmitEarlyStopping(spec, model, findings);
  AdmitSegments(*spec, model, findings);
  AdmitDeterminism(spec, model, findings);
}

void AdmitEvalAndCheckpoint(v1::JobSpec* spec, Findings& findings) {
  findings.Range("eval.every_steps", spec->eval().every_steps(), 0, int64_t{1} << 40);
  if (spec->eval().every_steps() > 0 && !spec->data().has_eval()) {
    findings.Wrong("eval.every_steps", "is set, but there is no data.eval to evaluate on");
  }
  v1::CheckpointSpec* checkpoint = spec->mutable_checkpoint();
  if (checkpoint->keep() == 0) checkpoint->set_keep(2);
  findings.Range("checkpoint.every_steps", checkpoint->every_steps(), 0, int64_t{1} << 40);
  findings.Range("checkpoint.keep", checkpoint->keep(), 1, 1000);
  if (checkpoint->keep_best() && spec->eval().every_steps() == 0) {
    findings.Wrong("checkpoint.keep_best",
                   "needs eval.every_steps above 0: evaluations decide which checkpoint is best");
  }
}

}  // namespace

void AdmitTraining(v1::JobSpec* spec, const graph::Graph* model, Findings& findings) {
  AdmitOptimizer(spec->mutable_optimizer(), findings);
  AdmitSchedule(spec->eval(), spec->mutable_schedule(), findings);
  AdmitTrain(spec, model, findings);
  AdmitEvalAndCheckpoint(spec, findings);
}

}  // namespace ampd::server
