#include "worker/train/plan/engine_options.h"

#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "graph/losses.h"
#include "worker/train/plan/spec_error.h"

namespace ampd::train {
namespace {

using amp::OptimizerConfig;
using amp::ScheduleConfig;

// Steps between samples of the gradients. A sample reads at most 65,536 elements per parameter, so it costs little
// compared to a step.
constexpr int64_t kSampleEverySteps = 100;

OptimizerConfig Sgd(const v1::SgdSpec& spec) {
  return {.kind = OptimizerConfig::Kind::kSgd,
          .learning_rate = spec.learning_rate(),
          .weight_decay = spec.weight_decay(),
          .momentum = spec.momentum(),
          .dampening = spec.dampening(),
          .nesterov = spec.nesterov()};
}

template <typename Spec>
OptimizerConfig Adam(OptimizerConfig::Kind kind, const Spec& spec, double default_decay) {
  OptimizerConfig config;
  config.kind = kind;
  config.learning_rate = spec.learning_rate();
  config.weight_decay = spec.has_weight_decay() ? spec.weight_decay() : default_decay;
  config.beta1 = spec.has_beta1() ? spec.beta1() : config.beta1;
  config.beta2 = spec.has_beta2() ? spec.beta2() : config.beta2;
  config.epsilon = spec.has_epsilon() ? spec.epsilon() : config.epsilon;
  return config;
}

absl::StatusOr<OptimizerConfig> OptimizerKindOf(const v1::OptimizerSpec& spec) {
  switch (spec.kind_case()) {
    case v1::OptimizerSpec::kSgd:
      return Sgd(spec.sgd());
    case v1::OptimizerSpec::kAdamw:
      return Adam(OptimizerConfig::Kind::kAdamW, spec.adamw(), 0.01);
    case v1::OptimizerSpec::kAdam:
      return Adam(OptimizerConfig::Kind::kAdam, spec.adam(), 0);
    case v1::OptimizerSpec::KIND_NOT_SET:
      break;
  }
  return SpecError("the spec names no optimizer");
}

absl::StatusOr<OptimizerConfig> Optimizer(const v1::OptimizerSpec& spec) {
  AMPD_ASSIGN_OR_RETURN(OptimizerConfig config, OptimizerKindOf(spec));
  for (const v1::ParameterGroup& group : spec.groups()) {
    amp::ParameterGroup& own = config.groups.emplace_back();
    own.match = group.match();
    if (group.has_learning_rate()) {
      own.learning_rate = group.learning_rate();
    }
    if (group.has_weight_decay()) {
      own.weight_decay = group.weight_decay();
    }
  }
  if (spec.has_ema_decay()) {
    config.ema_decay = spec.ema_decay();
  }
  return config;
}

absl::StatusOr<ScheduleConfig> Schedule(const v1::ScheduleSpec& spec, int64_t total_steps) {
  ScheduleConfig config;
  config.warmup_steps = spec.warmup_steps();
  config.total_steps = total_steps;
  switch (spec.kind_case()) {
    case v1::ScheduleSpec::kConstant:
    case v1::ScheduleSpec::KIND_NOT_SET:
      return config;
    case v1::ScheduleSpec::kCosine:
      config.shape = ScheduleConfig::Shape::kCosine;
      config.final_ratio = spec.cosine().final_ratio();
      return config;
    case v1::ScheduleSpec::kStep:
      config.shape = ScheduleConfig::Shape::kStep;
      config.every_steps = std::max<int64_t>(spec.step().every_steps(), 1);
      config.factor = spec.step().factor();
      return config;
    case v1::ScheduleSpec::kLinear:
      config.shape = ScheduleConfig::Shape::kLinear;
      config.final_ratio = spec.linear().final_ratio();
      return config;
    case v1::ScheduleSpec::kPolynomial:
      config.shape = ScheduleConfig::Shape::kPolynomial;
      config.power = spec.polynomial().power();
      config.final_ratio = spec.polynomial().final_ratio();
      return config;
    case v1::ScheduleSpec::kPlateau:
      return config;  // amp::Plateau applies this schedule, at evaluations.
  }
  return SpecError("the schedule is of a kind that this trainer does not know");
}

}  // namespace

std::optional<amp::PlateauConfig> PlateauOf(const v1::ScheduleSpec& spec) {
  if (!spec.has_plateau()) {
    return std::nullopt;
  }
  const v1::PlateauSchedule& plateau = spec.plateau();
  amp::PlateauConfig config;
  config.factor = plateau.has_factor() ? plateau.factor() : config.factor;
  config.patience_evals = plateau.has_patience_evals() ? plateau.patience_evals() : config.patience_evals;
  config.threshold = plateau.has_threshold() ? plateau.threshold() : config.threshold;
  config.cooldown_evals = plateau.cooldown_evals();
  config.min_learning_rate = plateau.min_learning_rate();
  return config;
}

absl::StatusOr<amp::EngineOptions> EngineOptionsOf(const v1::JobSpec& spec, const graph::Graph& model,
                                                   int64_t total_steps) {
  amp::EngineOptions options;
  AMPD_ASSIGN_OR_RETURN(options.optimizer, Optimizer(spec.optimizer()));
  AMPD_ASSIGN_OR_RETURN(options.schedule, Schedule(spec.schedule(), total_steps));
  if (spec.train().has_clip_grad_norm()) {
    options.clip_grad_norm = spec.train().clip_grad_norm();
  }
  options.seed = spec.train().seed();
  options.sample_every_steps = kSampleEverySteps;
  for (const graph::Loss& loss : graph::LossesOf(model)) {
    options.phases.push_back({.name = loss.network,
                              .loss = loss.output,
                              .parameters = loss.parameters,
                              .optimizer = options.optimizer,
                              .schedule = options.schedule,
                              .clip_grad_norm = options.clip_grad_norm});
  }
  return options;
}

}  // namespace ampd::train
