#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

namespace ampd::models {

// Sizes of a residual network.
struct ResnetConfig {
  std::vector<int64_t> widths = {16, 32, 64};  // of the stages; each after the first halves the image
  std::vector<int64_t> blocks = {2, 2, 2};     // of the stages
  bool bottlenecks = false;                    // instead of basic blocks
  bool large_images = false;                   // a stem that makes the image smaller by 4
  int64_t in_channels = 3;
  int64_t image_size = 32;
  int64_t num_classes = 10;
};

// torchvision's ResNet, with its names and its initialisation.
//
//   stem: conv1 = Conv2d(in, widths[0], 3, padding=1), bn1, relu; of large images
//         conv1 = Conv2d(in, widths[0], 7, stride=2, padding=3), bn1, relu, maxpool = MaxPool2d(3, stride=2, padding=1)
//   layer1, layer2 ...: a stage's blocks; avgpool = AdaptiveAvgPool2d(1); fc = Linear(features, num_classes)
//   block(x): relu(bn2(conv2(relu(bn1(conv1(x))))) + x), convolutions of 3 x 3, the first one with the stride
//   bottleneck(x): relu(bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x)))))))) + x), of 1 x 1, 3 x 3 with the stride, and
//     1 x 1 to four times the width
//   The first block of a stage after the first has stride 2. Where a block changes the shape, x goes through
//   downsample = Sequential(Conv2d(1 x 1, stride), BatchNorm2d).
// No convolution has a bias.
//
// Input "images" (B, in_channels, image_size, image_size); output "logits" (B, num_classes). INVALID_ARGUMENT with one
// violation a wrong field, paths beginning with "model.resnet".
absl::StatusOr<graph::Graph> BuildResnet(const ResnetConfig& config);

// ResNet-18, 34 or 50: resnet18() and so on of torchvision with its stem of large images, and with the one of small
// images what is commonly trained on CIFAR-10.
void FillDefaults(v1::ResnetSpec& spec);
absl::StatusOr<graph::Graph> BuildResnet(const v1::ResnetSpec& spec);

}  // namespace ampd::models
