#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ampd::models {

// Sizes of a residual network for small images.
struct ResnetConfig {
  std::vector<int64_t> widths = {16, 32, 64};  // of the stages; each after the first halves the image
  int64_t blocks_per_stage = 2;
  int64_t in_channels = 3;
  int64_t image_size = 32;
  int64_t num_classes = 10;
};

// torchvision's ResNet of BasicBlocks, with its names, and a stem for small images (3 x 3, no pooling).
//
//   conv1 = Conv2d(in, widths[0], 3, padding=1, bias=False), bn1, relu
//   layer1, layer2 ...: blocks_per_stage blocks; avgpool = AdaptiveAvgPool2d(1); fc = Linear(widths[-1], num_classes)
//   block(x): relu(bn2(conv2(relu(bn1(conv1(x))))) + x), convolutions of 3 x 3 without bias; the first block of a
//     stage after the first has stride 2 and downsample = Sequential(Conv2d(1 x 1, stride=2), BatchNorm2d) on x
//
// Input "images" (B, in_channels, image_size, image_size); output "logits" (B, num_classes). Initialised as those
// modules are, not as torchvision does it. INVALID_ARGUMENT with one violation a wrong field, paths beginning with
// "model.resnet".
absl::StatusOr<graph::Graph> BuildResnet(const ResnetConfig& config);

}  // namespace ampd::models
