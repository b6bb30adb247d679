#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

namespace ampd::models {

// The networks of PyTorch's DCGAN tutorial (Radford and others, 2016), with the same parameter names and
// initialisation. Letters: B batch, Z latent_size, C channels, S image_size, G generator_features, D
// discriminator_features.
//
//   generator.main = Sequential(ConvTranspose2d(Z, n G, first), BatchNorm2d, ReLU,
//                               [ConvTranspose2d(k, k / 2, 4, stride=2, padding=1), BatchNorm2d, ReLU]...,
//                               ConvTranspose2d(G, C, 4, stride=2, padding=1), Tanh)
//   discriminator.main = Sequential(Conv2d(C, D, 4, stride=2, padding=1), LeakyReLU(0.2),
//                               [Conv2d(k, 2 k, 4, stride=2, padding=1), BatchNorm2d, LeakyReLU(0.2)]...,
//                               Conv2d(n D, 1, first))
//   k = channels of the layer before; first = 4 for images of 32 or 64 pixels, 7 for 28
//   n = 2 to the number of bracketed parts; no layer has a bias
//   weights: normal with standard deviation 0.02; the mean is 1 for BatchNorm2d and 0 for the others
//
//   fake = generator(noise)
//   discriminator_loss = bce(discriminator(images), 1) + bce(discriminator(fake.detach()), 0)
//   generator_loss = bce(discriminator(fake), 1), with bce = binary_cross_entropy_with_logits
//
// The discriminator ends without the tutorial's sigmoid, because bce contains it. The tutorial generates the fake
// images once for both losses. Here each loss has its own program, and both programs generate them; only one of the two
// updates the generator's running statistics. Inputs "images" (B, C, S, S) and "noise" (B, Z); outputs: the two losses,
// fp32 scalars.

// Sets the unset fields of the spec to their defaults.
void FillDefaults(v1::DcganSpec& spec);

// Returns INVALID_ARGUMENT with one violation per wrong field; paths begin with "model.dcgan".
absl::StatusOr<graph::Graph> BuildDcgan(const v1::DcganSpec& spec);

// Builds the generator alone: input "noise" (B, Z), output "images" (B, C, S, S). Its parameters and buffers have the
// same names as in the whole model. Returns the errors of BuildDcgan.
absl::StatusOr<graph::Graph> BuildDcganGenerator(const v1::DcganSpec& spec);

}  // namespace ampd::models
