#pragma once

#include <optional>

#include "worker/amp/engine.h"

namespace ampd::train {

// The two halves of a GAN's step.
struct GanStep {
  const amp::PhaseResult& discriminator;
  const amp::PhaseResult& generator;
};

// nullopt for a model with one loss. The references are valid as long as `result`.
inline std::optional<GanStep> GanStepOf(const amp::StepResult& result) {
  const amp::PhaseResult* discriminator = nullptr;
  const amp::PhaseResult* generator = nullptr;
  for (const amp::PhaseResult& phase : result.phases) {
    discriminator = phase.phase == "discriminator" ? &phase : discriminator;
    generator = phase.phase == "generator" ? &phase : generator;
  }
  return discriminator != nullptr && generator != nullptr ? std::optional(GanStep{*discriminator, *generator})
                                                          : std::nullopt;
}

}  // namespace ampd::train
