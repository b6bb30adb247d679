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

// Findings of the last step of the FP8 canary, which measures the errors of FP8 layers.
struct CanaryReport {
  int64_t step = 0;
  std::vector<amp::Fp8Finding> layers;
};

// Summarizes the gradient samples of one step by module and format. `loss_scale`: the scale by which the gradients were
// multiplied. Adds the canary's findings and the fault of the forward pass. If `scaling` is on, or some gradients are
// fp16, also suggests a loss scale, which a user may then set.
v1::GradientSamples ReportGradients(const std::vector<amp::GradientSample>& samples, double loss_scale,
                                    const precision::LossScaleConfig& scaling, const CanaryReport& canary = {},
                                    const std::optional<amp::ActivationFault>& fault = {});

// A one-line summary of the gradient samples.
std::string Describe(const v1::GradientSamples& gradients);

v1::ActivationFault ToProto(const amp::ActivationFault& fault);

// A one-line explanation of the fault.
std::string Describe(const v1::ActivationFault& fault);

// The share (0 to 1) of a module's numbers that became 0 in a format.
struct ModuleLoss {
  std::string module;
  double share = 0;
};

// Describes the modules that lost the largest shares, worst first: "layers.0 0.812, layers.2 0.333". Names at most
// eight modules, each once, with its largest share. Leaves out shares up to `bound`.
std::string WorstModules(const std::vector<ModuleLoss>& losses, double bound);

}  // namespace ampd::train
