#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ampd::models {

// Sizes of the networks of a small generative adversarial network.
struct GanConfig {
  int64_t noise_features = 16;
  int64_t generator_width = 64;
  int64_t discriminator_width = 16;
  int64_t channels = 1;
  int64_t image_size = 8;
};

// A generator and its adversary, the discriminator. Letters: B batch, Z noise_features, C channels, S image_size, G and
// D the widths.
//
//   generator = Sequential(Linear(Z, G), ReLU(), Linear(G, C S S), Tanh()), viewed as (B, C, S, S)
//   discriminator = Sequential(Conv2d(C, D, 3, stride=2, padding=1), ReLU(),
//                              Conv2d(D, 2 D, 3, stride=2, padding=1, bias=False), BatchNorm2d(2 D), ReLU(), Flatten(),
//                              Linear(2 D ceil(S/4) ceil(S/4), 1))
//   fake = generator(noise)
//   discriminator_loss = bce(discriminator(images), 1) + bce(discriminator(fake.detach()), 0)
//   generator_loss = bce(discriminator(fake), 1), with bce = binary_cross_entropy_with_logits
//
// Inputs "images" (B, C, S, S) and "noise" (B, Z); outputs: the two losses, fp32 scalars. Parameters are initialised
// like those of the torch.nn modules named above. Returns INVALID_ARGUMENT with one violation per wrong field; paths
// begin with "model.gan".
absl::StatusOr<graph::Graph> BuildGan(const GanConfig& config);

}  // namespace ampd::models
