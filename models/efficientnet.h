#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

namespace ampd::models {

// torchvision's EfficientNet-B0, with the same parameter names and initialisation.
//
//   features.0: Conv2d(in, 32, 3, stride=2), features.8: Conv2d(320, 1280, 1), each with BatchNorm2d and SiLU
//   features.1 to 7: stages of inverted residual blocks; the first block of a stage has the stage's stride and width
//   inverted_residual(x): x + stochastic_depth(block(x)) if the shape stays the same, block(x) otherwise
//     block = expand (Conv2d(in, e, 1), BatchNorm2d, SiLU; not in features.1, where e = in),
//             depthwise (Conv2d(e, e, k, stride, groups=e), BatchNorm2d, SiLU), squeeze and excitation,
//             project (Conv2d(e, out, 1), BatchNorm2d)
//     squeeze and excitation(x): x * sigmoid(fc2(silu(fc1(avgpool(x))))), fc1 = Conv2d(e, in / 4, 1), fc2 back to e
//   classifier: Dropout, Linear(1280, num_classes)
//   Stochastic depth skips a block for a sample with a probability that starts at 0 and rises by 1/16 of
//   stochastic_depth_prob per block.
//   convolutions: normal, kaiming's with fan-out; no bias except in squeeze and excitation, where it is 0
//   classifier: uniform within 1 / sqrt(num_classes), its bias 0
//
// Input "images" (B, in_channels, image_size, image_size); output "logits" (B, num_classes).

// Sets the unset fields of the spec to their defaults.
void FillDefaults(v1::EfficientNetSpec& spec);

// Returns INVALID_ARGUMENT with one violation per wrong field; paths begin with "model.efficientnet_b0".
absl::StatusOr<graph::Graph> BuildEfficientNet(const v1::EfficientNetSpec& spec);

}  // namespace ampd::models
