#pragma once

#include <string>
#include <vector>

#include "ampd/v1/job.pb.h"
#include "worker/amp/gradient_sample.h"

namespace ampd::train {

// The samples of one step, put together by module and format, with the scale that they have and the one that they
// suggest.
v1::GradientSamples ReportGradients(const std::vector<amp::GradientSample>& samples, double loss_scale);

// One line for people.
std::string Describe(const v1::GradientSamples& gradients);

}  // namespace ampd::train
