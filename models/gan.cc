#include "models/gan.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/builder/builder.h"
#include "models/limits.h"

namespace ampd::models {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::ValueId;

std::vector<FieldViolation> Violations(const GanConfig& config) {
  Limits limits("model.gan");
  limits.Within("noise_features", config.noise_features, 1, kMaxFeatures);
  limits.Within("generator_width", config.generator_width, 1, kMaxFeatures);
  limits.Within("discriminator_width", config.discriminator_width, 1, kMaxWidth);
  limits.Within("channels", config.channels, 1, kMaxWidth);
  limits.Within("image_size", config.image_size, 2, kMaxImageSize);
  return std::move(limits).violations();
}

// Generates images (B, C, S, S) from noise (B, Z). models/gan.h explains the letters.
ValueId Generate(GraphBuilder& b, const GanConfig& config, ValueId noise) {
  const int64_t size = config.image_size;
  ValueId x = b.Relu("generator.1", b.Linear("generator.0", noise, config.generator_width));
  x = b.Tanh("generator.3", b.Linear("generator.2", x, config.channels * size * size));
  return b.View("generator", x, {Dim::Batch(), config.channels, size, size});
}

// Computes the discriminator's logits (B, 1) for images (B, C, S, S).
ValueId Score(GraphBuilder& b, const GanConfig& config, ValueId images) {
  const int64_t width = config.discriminator_width;
  ValueId x = b.Conv2d("discriminator.0", images, {.out_channels = width, .kernel_size = 3, .stride = 2, .padding = 1});
  x = b.Conv2d("discriminator.2", b.Relu("discriminator.1", x),
               {.out_channels = 2 * width, .kernel_size = 3, .stride = 2, .padding = 1, .bias = false});
  x = b.Relu("discriminator.4", b.BatchNorm2d("discriminator.3", x));
  return b.Linear("discriminator.6", b.Flatten("discriminator.5", x), 1);
}

}  // namespace

absl::StatusOr<graph::Graph> BuildGan(const GanConfig& config) {
  if (const auto violations = Violations(config); !violations.empty()) {
    return InvalidFields(violations);
  }
  GraphBuilder b("gan");
  const int64_t size = config.image_size;
  const ValueId images = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), config.channels, size, size}});
  const ValueId noise = b.Input("noise", {Dtype::kFloat32, {Dim::Batch(), config.noise_features}});
  const ValueId fake = Generate(b, config, noise);
  const ValueId of_real = Score(b, config, images);
  const ValueId of_constant_fake = Score(b, config, b.Detach("", fake));
  const ValueId of_fake = Score(b, config, fake);
  const ValueId loss_of_real = b.BinaryCrossEntropy("", of_real, b.OnesLike("", of_real));
  const ValueId loss_of_fake = b.BinaryCrossEntropy("", of_constant_fake, b.ZerosLike("", of_constant_fake));
  b.Output("discriminator_loss", b.Add("", loss_of_real, loss_of_fake));
  b.Output("generator_loss", b.BinaryCrossEntropy("", of_fake, b.OnesLike("", of_fake)));
  return std::move(b).Build();
}

}  // namespace ampd::models
