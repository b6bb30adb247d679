#include "server/admission_findings.h"

namespace ampd::server {
namespace {

void AdmitSgd(v1::SgdSpec* sgd, Findings& findings) {
  findings.Real("optimizer.sgd.learning_rate", sgd->learning_rate(), 0, 1e6, /*open_least=*/true);
  findings.Real("optimizer.sgd.momentum", sgd->momentum(), 0, 1, false, /*open_most=*/true);
  findings.Real("optimizer.sgd.weight_decay", sgd->weight_decay(), 0, 1e6);
  findings.Real("optimizer.sgd.dampening", sgd->dampening(), 0, 1);
  if (sgd->nesterov() && (sgd->momentum() <= 0 || sgd->dampening() != 0)) {
    findings.Wrong("optimizer.sgd.nesterov", "needs a momentum above 0 and a dampening of 0");
  }
}

void AdmitAdamW(v1::AdamWSpec* adamw, Findings& findings) {
  if (!adamw->has_beta1()) adamw->set_beta1(0.9);
  if (!adamw->has_beta2()) adamw->set_beta2(0.999);
  if (!adamw->has_epsilon()) adamw->set_epsilon(1e-8);
  if (!adamw->has_weight_decay()) adamw->set_weight_decay(0.01);
  findings.Real("optimizer.adamw.learning_rate", adamw->learning_rate(), 0, 1e6, /*open_least=*/true);
  findings.Real("optimizer.adamw.beta1", adamw->beta1(), 0, 1, false, /*open_most=*/true);
  findings.Real("optimizer.adamw.beta2", adamw->beta2(), 0, 1, false, /*open_most=*/true);
  findings.Real("optimizer.adamw.epsilon", adamw->epsilon(), 0, 1, /*open_least=*/true);
  findings.Real("optimizer.adamw.weight_decay", adamw->weight_decay(), 0, 1e6);
}

void AdmitOptimizer(v1::OptimizerSpec* optimizer, Findings& findings) {
  switch (optimizer->kind_case()) {
    case v1::OptimizerSpec::kSgd:
      AdmitSgd(optimizer->mutable_sgd(), findings);
      break;
    case v1::OptimizerSpec::kAdamw:
      AdmitAdamW(optimizer->mutable_adamw(), findings);
      break;
    case v1::OptimizerSpec::kAdam:
      findings.Unsupported("optimizer.adam", "this server has sgd and adamw");
      break;
    default:
      findings.Wrong("optimizer", "must have one of sgd, adamw");
  }
  findings.UnsupportedIf(!optimizer->groups().empty(), "optimizer.groups");
  findings.UnsupportedIf(optimizer->has_ema_decay(), "optimizer.ema_decay");
}

void AdmitSchedule(v1::ScheduleSpec* schedule, Findings& findings) {
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
      findings.Unsupported("schedule.linear", "this server has constant, cosine and step");
      break;
    case v1::ScheduleSpec::kPolynomial:
      findings.Unsupported("schedule.polynomial", "this server has constant, cosine and step");
      break;
    case v1::ScheduleSpec::kPlateau:
      findings.Unsupported("schedule.plateau", "this server has constant, cosine and step");
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

void AdmitTrain(v1::JobSpec* spec, Findings& findings) {
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
  findings.UnsupportedIf(!train->checkpoint_segments().empty(), "train.checkpoint_segments");
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
}

}  // namespace

void AdmitTraining(v1::JobSpec* spec, Findings& findings) {
  AdmitOptimizer(spec->mutable_optimizer(), findings);
  AdmitSchedule(spec->mutable_schedule(), findings);
  AdmitTrain(spec, findings);
  AdmitEvalAndCheckpoint(spec, findings);
}

}  // namespace ampd::server
