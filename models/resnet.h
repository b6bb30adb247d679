#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

namespace ampd::models {

// Sizes of a residual network.
struct ResnetConfig {
  std::vector<int64_t> widths = {16, 32, 64};  // Channels of each stage; each stage after the first halves the image.
  std::vector<int64_t> blocks = {2, 2, 2};     // Number of blocks in each stage.
  bool bottlenecks = false;                    // Bottleneck blocks instead of basic blocks.
  bool large_images = false;                   // The stem divides the image's height and width by 4.
  int64_t in_channels = 3;
  int64_t image_size = 32;
  int64_t num_classes = 10;
};

// torchvision's ResNet, with the same parameter names and initialisation.
//
//   stem: conv1 = Conv2d(in, widths[0], 3, padding=1), bn1, relu; for large images
//         conv1 = Conv2d(in, widths[0], 7, stride=2, padding=3), bn1, relu, maxpool = MaxPool2d(3, stride=2, padding=1)
//   layer1, layer2 ...: a stage's blocks; avgpool = AdaptiveAvgPool2d(1); fc = Linear(features, num_classes)
//   block(x): relu(bn2(conv2(relu(bn1(conv1(x))))) + x), 3 x 3 convolutions, the first one with the stride
//   bottleneck(x): relu(bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x)))))))) + x), 1 x 1, 3 x 3 with the stride,
//     and 1 x 1 convolutions, the last to four times the width
//   The first block of a stage after the first has stride 2. Where a block changes the shape, x goes through
//   downsample = Sequential(Conv2d(1 x 1, stride), BatchNorm2d).
// No convolution has a bias.
//
// Input "images" (B, in_channels, image_size, image_size); output "logits" (B, num_classes). Returns INVALID_ARGUMENT
// with one violation per wrong field; paths begin with "model.resnet".
absl::StatusOr<graph::Graph> BuildResnet(const ResnetConfig& config);

// The following functions build ResNet-18, 34 or 50 from a job's spec. With the stem (first layers) for large images,
// the result is torchvision's resnet18(), resnet34() or resnet50(). With the stem for small images, it is the variant
// commonly trained on CIFAR-10.

// Sets the unset fields of the spec to their defaults.
void FillDefaults(v1::ResnetSpec& spec);
absl::StatusOr<graph::Graph> BuildResnet(const v1::ResnetSpec& spec);

}  // namespace ampd::models
