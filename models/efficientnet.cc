#include "models/efficientnet.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
using graph::Initializer;
using graph::ValueId;

// A sequence of blocks with the same number of output channels. Only the first block has the stage's stride.
struct Stage {
  int64_t expansion;
  int64_t kernel_size;
  int64_t stride;
  int64_t in_channels;
  int64_t out_channels;
  int64_t num_blocks;
};

// The stages of EfficientNet-B0, from table 1 of Tan and Le: "EfficientNet: Rethinking Model Scaling for Convolutional
// Neural Networks", 2019.
constexpr Stage kStages[] = {{1, 3, 1, 32, 16, 1},  {6, 3, 2, 16, 24, 2},   {6, 5, 2, 24, 40, 2},  {6, 3, 2, 40, 80, 3},
                             {6, 5, 1, 80, 112, 3}, {6, 5, 2, 112, 192, 4}, {6, 3, 1, 192, 320, 1}};
constexpr int64_t kNumBlocks = 16;
constexpr int64_t kLastChannels = 1280;
constexpr double kClassifierDropout = 0.2;
constexpr double kStochasticDepth = 0.2;

struct BlockShape {
  int64_t expanded_channels;
  int64_t kernel_size;
  int64_t stride;
  int64_t in_channels;
  int64_t out_channels;
  double stochastic_depth;

  bool keeps_shape() const { return stride == 1 && in_channels == out_channels; }
};

std::vector<FieldViolation> Violations(const v1::EfficientNetSpec& spec) {
  Limits limits("model.efficientnet_b0");
  limits.Within("num_classes", spec.num_classes(), 2, kMaxClasses);
  limits.Within("in_channels", spec.in_channels(), 1, kMaxWidth);
  limits.Within("image_size", spec.image_size(), 1, kMaxImageSize);
  limits.Probability("dropout", spec.dropout());
  limits.Probability("stochastic_depth_prob", spec.stochastic_depth_prob());
  return std::move(limits).violations();
}

// Adds a padded convolution. Only its stride changes the image's size. The weight is initialised as by
// torch.nn.init.kaiming_normal_(mode="fan_out").
ValueId Convolution(GraphBuilder& b, const std::string& path, ValueId x, Conv2dOptions options) {
  const int64_t fan_out = options.out_channels * options.kernel_size * options.kernel_size;
  options.weight = Initializer::Normal(std::sqrt(2.0 / static_cast<double>(fan_out)));
  options.padding = (options.kernel_size - 1) / 2;
  return b.Conv2d(path, x, options);
}

// torchvision's Conv2dNormActivation.
ValueId ConvNorm(GraphBuilder& b, const std::string& path, ValueId x, Conv2dOptions options) {
  options.bias = false;
  return b.BatchNorm2d(path + ".1", Convolution(b, path + ".0", x, options));
}

ValueId ConvNormSilu(GraphBuilder& b, const std::string& path, ValueId x, const Conv2dOptions& options) {
  return b.Silu(path + ".2", ConvNorm(b, path, x, options));
}

ValueId SqueezeExcitation(GraphBuilder& b, const std::string& path, ValueId x, const BlockShape& block) {
  ValueId scale = b.GlobalAvgPool2d(path + ".avgpool", x);
  scale = b.Silu(path + ".activation", Convolution(b, path + ".fc1", scale, {.out_channels = block.in_channels / 4}));
  scale = Convolution(b, path + ".fc2", scale, {.out_channels = block.expanded_channels});
  return b.Mul(path, x, b.Sigmoid(path + ".scale_activation", scale));
}

ValueId InvertedResidual(GraphBuilder& b, const std::string& path, ValueId x, const BlockShape& block) {
  int part = 0;
  const auto next = [&path, &part] { return absl::StrCat(path, ".block.", part++); };
  ValueId y = x;
  if (block.expanded_channels != block.in_channels) {
    y = ConvNormSilu(b, next(), y, {.out_channels = block.expanded_channels});
  }
  y = ConvNormSilu(b, next(), y,
                   {.out_channels = block.expanded_channels,
                    .kernel_size = block.kernel_size,
                    .stride = block.stride,
                    .groups = block.expanded_channels});
  y = SqueezeExcitation(b, next(), y, block);
  y = ConvNorm(b, next(), y, {.out_channels = block.out_channels});
  if (!block.keeps_shape()) {
    return y;
  }
  if (block.stochastic_depth > 0) {
    y = b.StochasticDepth(path + ".stochastic_depth", y, block.stochastic_depth);
  }
  return b.Add(path, y, x);
}

ValueId Stages(GraphBuilder& b, ValueId x, double stochastic_depth_prob) {
  int64_t number = 0;  // Number of a block, counted over all stages.
  int stage_number = 1;
  for (const Stage& stage : kStages) {
    for (int64_t i = 0; i < stage.num_blocks; ++i) {
      const int64_t in_channels = i == 0 ? stage.in_channels : stage.out_channels;
      x = InvertedResidual(b, absl::StrCat("features.", stage_number, ".", i), x,
                           {.expanded_channels = stage.expansion * in_channels,
                            .kernel_size = stage.kernel_size,
                            .stride = i == 0 ? stage.stride : 1,
                            .in_channels = in_channels,
                            .out_channels = stage.out_channels,
                            .stochastic_depth = stochastic_depth_prob * static_cast<double>(number) / kNumBlocks});
      ++number;
    }
    ++stage_number;
  }
  return x;
}

}  // namespace

void FillDefaults(v1::EfficientNetSpec& spec) {
  if (spec.num_classes() == 0) spec.set_num_classes(1000);
  if (spec.in_channels() == 0) spec.set_in_channels(3);
  if (spec.image_size() == 0) spec.set_image_size(224);
  if (!spec.has_dropout()) spec.set_dropout(kClassifierDropout);
  if (!spec.has_stochastic_depth_prob()) spec.set_stochastic_depth_prob(kStochasticDepth);
}

absl::StatusOr<graph::Graph> BuildEfficientNet(const v1::EfficientNetSpec& spec) {
  v1::EfficientNetSpec net = spec;
  FillDefaults(net);
  if (const auto violations = Violations(net); !violations.empty()) {
    return InvalidFields(violations);
  }
  GraphBuilder b("efficientnet_b0");
  ValueId x =
      b.Input("images", {Dtype::kFloat32, {Dim::Batch(), net.in_channels(), net.image_size(), net.image_size()}});
  x = ConvNormSilu(b, "features.0", x, {.out_channels = kStages[0].in_channels, .kernel_size = 3, .stride = 2});
  x = Stages(b, x, net.stochastic_depth_prob());
  x = ConvNormSilu(b, "features.8", x, {.out_channels = kLastChannels});
  x = b.Flatten("", b.GlobalAvgPool2d("avgpool", x));
  if (net.dropout() > 0) {
    x = b.Dropout("classifier.0", x, net.dropout());
  }
  const Initializer weight = Initializer::Uniform(1 / std::sqrt(static_cast<double>(net.num_classes())));
  b.Output("logits", b.Linear("classifier.1", x, net.num_classes(), weight));
  return std::move(b).Build();
}

}  // namespace ampd::models
