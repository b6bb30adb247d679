#include "models/resnet.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "graph/builder/builder.h"
#include "models/limits.h"

namespace ampd::models {
namespace {

using graph::Conv2dOptions;
using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::ValueId;

constexpr int64_t kMaxStages = 8;
constexpr int64_t kMaxBlocks = 64;
constexpr int64_t kExpansion = 4;  // A bottleneck's output has this many times its width.

std::vector<FieldViolation> Violations(const ResnetConfig& config) {
  Limits limits("model.resnet");
  const auto num_stages = static_cast<int64_t>(config.widths.size());
  if (limits.Within("widths", num_stages, 1, kMaxStages, " entries") &&
      limits.Within("blocks", static_cast<int64_t>(config.blocks.size()), num_stages, num_stages, " entries")) {
    for (size_t i = 0; i < config.widths.size(); ++i) {
      limits.Within(absl::StrCat("widths[", i, "]"), config.widths[i], 1, kMaxWidth);
      limits.Within(absl::StrCat("blocks[", i, "]"), config.blocks[i], 1, kMaxBlocks);
    }
  }
  limits.Within("in_channels", config.in_channels, 1, kMaxWidth);
  limits.Within("image_size", config.image_size, 1, kMaxImageSize);
  limits.Within("num_classes", config.num_classes, 2, kMaxClasses);
  return std::move(limits).violations();
}

// Adds a convolution and its batch norm, with parameters at the given paths. The weight is initialised as by
// torch.nn.init.kaiming_normal_(mode="fan_out").
ValueId ConvNorm(GraphBuilder& b, const std::string& conv, const std::string& norm, ValueId x, Conv2dOptions options) {
  const int64_t fan_out = options.out_channels * options.kernel_size * options.kernel_size;
  options.weight = graph::Initializer::Normal(std::sqrt(2.0 / static_cast<double>(fan_out)));
  options.bias = false;
  return b.BatchNorm2d(norm, b.Conv2d(conv, x, options));
}

// Adds one branch of a residual block: two 3 x 3 convolutions. The caller adds the block's input to the result.
ValueId Basic(GraphBuilder& b, const std::string& path, ValueId x, int64_t width, int64_t stride) {
  x = ConvNorm(b, path + ".conv1", path + ".bn1", x,
               {.out_channels = width, .kernel_size = 3, .stride = stride, .padding = 1});
  x = b.Relu(path + ".relu", x);
  return ConvNorm(b, path + ".conv2", path + ".bn2", x, {.out_channels = width, .kernel_size = 3, .padding = 1});
}

ValueId Bottleneck(GraphBuilder& b, const std::string& path, ValueId x, int64_t width, int64_t stride) {
  x = b.Relu(path + ".relu", ConvNorm(b, path + ".conv1", path + ".bn1", x, {.out_channels = width, .kernel_size = 1}));
  x = ConvNorm(b, path + ".conv2", path + ".bn2", x,
               {.out_channels = width, .kernel_size = 3, .stride = stride, .padding = 1});
  x = b.Relu(path + ".relu", x);
  return ConvNorm(b, path + ".conv3", path + ".bn3", x, {.out_channels = kExpansion * width, .kernel_size = 1});
}

// Adds the blocks of all stages in sequence.
ValueId Stages(GraphBuilder& b, const ResnetConfig& config, ValueId x) {
  int64_t features = config.widths[0];  // Channels of the input of the block that is added next.
  for (size_t stage = 0; stage < config.widths.size(); ++stage) {
    const int64_t width = config.widths[stage];
    const int64_t out = config.bottlenecks ? kExpansion * width : width;
    for (int64_t block = 0; block < config.blocks[stage]; ++block) {
      const std::string path = absl::StrCat("layer", stage + 1, ".", block);
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      const ValueId y = config.bottlenecks ? Bottleneck(b, path, x, width, stride) : Basic(b, path, x, width, stride);
      if (stride != 1 || features != out) {
        x = ConvNorm(b, path + ".downsample.0", path + ".downsample.1", x,
                     {.out_channels = out, .kernel_size = 1, .stride = stride});
      }
      x = b.Relu(path + ".relu", b.Add(path, y, x));
      features = out;
    }
  }
  return x;
}

}  // namespace

absl::StatusOr<graph::Graph> BuildResnet(const ResnetConfig& config) {
  if (const auto violations = Violations(config); !violations.empty()) {
    return InvalidFields(violations);
  }
  const Conv2dOptions stem =
      config.large_images ? Conv2dOptions{.out_channels = config.widths[0], .kernel_size = 7, .stride = 2, .padding = 3}
                          : Conv2dOptions{.out_channels = config.widths[0], .kernel_size = 3, .padding = 1};
  GraphBuilder b("resnet");
  ValueId x =
      b.Input("images", {Dtype::kFloat32, {Dim::Batch(), config.in_channels, config.image_size, config.image_size}});
  x = b.Relu("relu", ConvNorm(b, "conv1", "bn1", x, stem));
  if (config.large_images) {
    x = b.MaxPool2d("maxpool", x, {.kernel_size = 3, .stride = 2, .padding = 1});
  }
  x = b.Flatten("", b.GlobalAvgPool2d("avgpool", Stages(b, config, x)));
  b.Output("logits", b.Linear("fc", x, config.num_classes));
  return std::move(b).Build();
}

void FillDefaults(v1::ResnetSpec& spec) {
  if (spec.depth() == 0) spec.set_depth(18);
  if (spec.stem() == v1::ResnetSpec::STEM_UNSPECIFIED) spec.set_stem(v1::ResnetSpec::IMAGENET);
  const bool is_small = spec.stem() == v1::ResnetSpec::CIFAR;
  if (spec.num_classes() == 0) spec.set_num_classes(is_small ? 10 : 1000);
  if (spec.in_channels() == 0) spec.set_in_channels(3);
  if (spec.image_size() == 0) spec.set_image_size(is_small ? 32 : 224);
}

absl::StatusOr<graph::Graph> BuildResnet(const v1::ResnetSpec& spec) {
  v1::ResnetSpec resnet = spec;
  FillDefaults(resnet);
  Limits limits("model.resnet");
  if (resnet.depth() != 18 && resnet.depth() != 34 && resnet.depth() != 50) {
    limits.Add("depth", absl::StrCat(resnet.depth(), " is not 18, 34 or 50"));
  }
  if (!v1::ResnetSpec::Stem_IsValid(resnet.stem())) {
    limits.Add("stem", absl::StrCat(static_cast<int>(resnet.stem()), " is not IMAGENET or CIFAR"));
  }
  if (const auto violations = std::move(limits).violations(); !violations.empty()) {
    return InvalidFields(violations);
  }
  return BuildResnet(
      ResnetConfig{.widths = {64, 128, 256, 512},
                   .blocks = resnet.depth() == 18 ? std::vector<int64_t>{2, 2, 2, 2} : std::vector<int64_t>{3, 4, 6, 3},
                   .bottlenecks = resnet.depth() == 50,
                   .large_images = resnet.stem() == v1::ResnetSpec::IMAGENET,
                   .in_channels = resnet.in_channels(),
                   .image_size = resnet.image_size(),
                   .num_classes = resnet.num_classes()});
}

}  // namespace ampd::models
