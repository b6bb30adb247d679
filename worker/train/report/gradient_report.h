#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ampd/v1/job.pb.h"
#include "precision/loss_scale.h"
#include "worker/amp/activation_sample.h"
#include "worker/amp/fp8/fp8_layers.h"
#include "worker/amp/gradient_sample.h"

namespace ampd::train {

// What FP8's canary saw when it last looked.
struct CanaryReport {
  int64_t step = 0;
  std::vector<amp::Fp8Finding> layers;
};

// The samples of one step, put together by module and format, with the scale that they have and beside them what the
// canary saw and what went wrong in the forward pass. Where `scaling` is on, or could be for fp16, also the scale that
// they suggest, one that may be ordered.
v1::GradientSamples ReportGradients(const std::vector<amp::GradientSample>& samples, double loss_scale,
                                    const precision::LossScaleConfig& scaling, const CanaryReport& canary = {},
                                    const std::optional<amp::ActivationFault>& fault = {});

// One line for people.
std::string Describe(const v1::GradientSamples& gradients);

v1::ActivationFault ToProto(const amp::ActivationFault& fault);

// What it means, in one line for people.
std::string Describe(const v1::ActivationFault& fault);

// What a format lost of a module's numbers, a part of them or all.
struct ModuleLoss {
  std::string module;
  double share = 0;
};

// "layers.0 0.812, layers.2 0.333": of each module the largest share, the worst first, those above `bound` and at most
// eight.
std::string WorstModules(const std::vector<ModuleLoss>& losses, double bound);

}  // namespace ampd::train
