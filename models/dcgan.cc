#include "models/dcgan.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/builder/builder.h"
#include "models/limits.h"

namespace ampd::models {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::Initializer;
using graph::ValueId;

constexpr double kInitialDeviation = 0.02;
constexpr double kLeak = 0.2;
constexpr int64_t kKernel = 4;  // Kernel size of every convolution that halves or doubles an image.

// The sizes from an image down to the innermost feature map. Each stage of the networks halves (or doubles) the size.
struct GanStages {
  int64_t first = 0;  // Width and height of the innermost feature map.
  int num_halvings = 0;
};

GanStages StagesOf(int64_t image_size) {
  GanStages stages{.first = image_size};
  for (; stages.first > 7; stages.first /= 2) {
    ++stages.num_halvings;
  }
  return stages;
}

std::vector<FieldViolation> Violations(const v1::DcganSpec& dcgan) {
  Limits limits("model.dcgan");
  if (dcgan.image_size() != 28 && dcgan.image_size() != 32 && dcgan.image_size() != 64) {
    limits.Add("image_size", absl::StrCat(dcgan.image_size(), " is not 28, 32 or 64"));
  }
  limits.Within("channels", dcgan.channels(), 1, kMaxWidth);
  limits.Within("latent_size", dcgan.latent_size(), 1, kMaxFeatures);
  limits.Within("generator_features", dcgan.generator_features(), 1, kMaxWidth);
  limits.Within("discriminator_features", dcgan.discriminator_features(), 1, kMaxWidth);
  return std::move(limits).violations();
}

// Builds the generator and the discriminator. Layers have the numbers that torch.nn.Sequential would give them.
class Dcgan {
 public:
  Dcgan(GraphBuilder& b, const v1::DcganSpec& spec) : b_(b), spec_(spec), stages_(StagesOf(spec.image_size())) {}

  // Generates images (B, C, S, S) from noise (B, Z). models/dcgan.h explains the letters.
  ValueId Generate(ValueId noise) {
    const std::string path = "generator.main.";
    int64_t features = spec_.generator_features() << (stages_.num_halvings - 1);
    ValueId x = b_.View("generator", noise, {Dim::Batch(), spec_.latent_size(), 1, 1});
    int layer = 0;
    x = Grown(path, layer++, x, {.out_channels = features, .kernel_size = stages_.first});
    for (int stage = 1; stage <= stages_.num_halvings; ++stage) {
      x = b_.Relu(Path(path, layer + 1), Norm(Path(path, layer), x));
      layer += 2;
      features = stage == stages_.num_halvings ? spec_.channels() : features / 2;
      x = Grown(path, layer++, x, {.out_channels = features, .kernel_size = kKernel, .stride = 2, .padding = 1});
    }
    return b_.Tanh(Path(path, layer), x);
  }

  // Computes the discriminator's logits (B, 1, 1, 1) for images (B, C, S, S). The loss applies the sigmoid.
  ValueId Score(ValueId x) {
    const std::string path = "discriminator.main.";
    int64_t features = spec_.discriminator_features();
    int layer = 0;
    for (int stage = 0; stage < stages_.num_halvings; ++stage, features *= 2) {
      x = Shrunk(path, layer++, x, {.out_channels = features, .kernel_size = kKernel, .stride = 2, .padding = 1});
      if (stage > 0) {
        x = Norm(Path(path, layer++), x);
      }
      x = b_.LeakyRelu(Path(path, layer++), x, kLeak);
    }
    return Shrunk(path, layer, x, {.out_channels = 1, .kernel_size = stages_.first});
  }

 private:
  static std::string Path(const std::string& prefix, int layer) { return absl::StrCat(prefix, layer); }

  ValueId Grown(const std::string& path, int layer, ValueId x, graph::Conv2dOptions options) {
    options.bias = false;
    options.weight = Initializer::Normal(kInitialDeviation);
    return b_.ConvTranspose2d(Path(path, layer), x, options);
  }
  ValueId Shrunk(const std::string& path, int layer, ValueId x, graph::Conv2dOptions options) {
    options.bias = false;
    options.weight = Initializer::Normal(kInitialDeviation);
    return b_.Conv2d(Path(path, layer), x, options);
  }
  ValueId Norm(const std::string& path, ValueId x) {
    return b_.BatchNorm2d(path, x, 0.1, 1e-5,
                          {.kind = Initializer::Kind::kNormal, .value = 1, .bound = kInitialDeviation});
  }

  GraphBuilder& b_;
  const v1::DcganSpec& spec_;
  const GanStages stages_;
};

absl::StatusOr<v1::DcganSpec> Checked(v1::DcganSpec spec) {
  FillDefaults(spec);
  if (const auto violations = Violations(spec); !violations.empty()) {
    return InvalidFields(violations);
  }
  return spec;
}

ValueId Noise(GraphBuilder& b, const v1::DcganSpec& dcgan) {
  return b.Input("noise", {Dtype::kFloat32, {Dim::Batch(), dcgan.latent_size()}});
}

}  // namespace

void FillDefaults(v1::DcganSpec& spec) {
  if (spec.image_size() == 0) spec.set_image_size(28);
  if (spec.channels() == 0) spec.set_channels(1);
  if (spec.latent_size() == 0) spec.set_latent_size(100);
  if (spec.generator_features() == 0) spec.set_generator_features(64);
  if (spec.discriminator_features() == 0) spec.set_discriminator_features(64);
}

absl::StatusOr<graph::Graph> BuildDcgan(const v1::DcganSpec& spec) {
  AMPD_ASSIGN_OR_RETURN(const v1::DcganSpec dcgan, Checked(spec));
  GraphBuilder b("dcgan");
  Dcgan networks(b, dcgan);
  const int64_t size = dcgan.image_size();
  const ValueId images = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), dcgan.channels(), size, size}});
  const ValueId noise = Noise(b, dcgan);
  const ValueId fake = networks.Generate(noise);
  const ValueId of_real = networks.Score(images);
  // `fake` appears once in the graph. But each loss is computed by a program of its own, and both programs generate the
  // fake images. Only the last of these programs updates the generator's running statistics.
  const ValueId of_constant_fake = networks.Score(b.Detach("", fake));
  const ValueId of_fake = networks.Score(fake);
  const ValueId loss_of_real = b.BinaryCrossEntropy("", of_real, b.OnesLike("", of_real));
  const ValueId loss_of_fake = b.BinaryCrossEntropy("", of_constant_fake, b.ZerosLike("", of_constant_fake));
  b.Output("discriminator_loss", b.Add("", loss_of_real, loss_of_fake));
  b.Output("generator_loss", b.BinaryCrossEntropy("", of_fake, b.OnesLike("", of_fake)));
  return std::move(b).Build();
}

absl::StatusOr<graph::Graph> BuildDcganGenerator(const v1::DcganSpec& spec) {
  AMPD_ASSIGN_OR_RETURN(const v1::DcganSpec dcgan, Checked(spec));
  GraphBuilder b("dcgan_generator");
  Dcgan networks(b, dcgan);
  b.Output("images", networks.Generate(Noise(b, dcgan)));
  return std::move(b).Build();
}

}  // namespace ampd::models
