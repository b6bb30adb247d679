#include "models/resnet.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "graph/builder.h"
#include "models/limits.h"

namespace ampd::models {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::ValueId;

constexpr int64_t kMaxStages = 8;
constexpr int64_t kMaxBlocks = 64;

std::vector<FieldViolation> Violations(const ResnetConfig& config) {
  Limits limits("model.resnet");
  const auto num_stages = static_cast<int64_t>(config.widths.size());
  if (limits.Within("widths", num_stages, 1, kMaxStages, " entries")) {
    for (size_t i = 0; i < config.widths.size(); ++i) {
      limits.Within(absl::StrCat("widths[", i, "]"), config.widths[i], 1, kMaxWidth);
    }
  }
  limits.Within("blocks_per_stage", config.blocks_per_stage, 1, kMaxBlocks);
  limits.Within("in_channels", config.in_channels, 1, kMaxWidth);
  limits.Within("image_size", config.image_size, 1, kMaxImageSize);
  limits.Within("num_classes", config.num_classes, 2, kMaxClasses);
  return std::move(limits).violations();
}

// conv and bn, as "<path>.<conv>" and "<path>.<bn>".
ValueId ConvNorm(GraphBuilder& b, const std::string& conv, const std::string& norm, ValueId x,
                 graph::Conv2dOptions options) {
  options.bias = false;
  return b.BatchNorm2d(norm, b.Conv2d(conv, x, options));
}

ValueId BasicBlock(GraphBuilder& b, const std::string& path, ValueId x, int64_t width, int64_t stride) {
  ValueId y = ConvNorm(b, path + ".conv1", path + ".bn1", x,
                       {.out_channels = width, .kernel_size = 3, .stride = stride, .padding = 1});
  y = b.Relu(path + ".relu", y);
  y = ConvNorm(b, path + ".conv2", path + ".bn2", y, {.out_channels = width, .kernel_size = 3, .padding = 1});
  if (stride != 1) {
    x = ConvNorm(b, path + ".downsample.0", path + ".downsample.1", x,
                 {.out_channels = width, .kernel_size = 1, .stride = stride});
  }
  return b.Relu(path + ".relu", b.Add(path, y, x));
}

}  // namespace

absl::StatusOr<graph::Graph> BuildResnet(const ResnetConfig& config) {
  if (const auto violations = Violations(config); !violations.empty()) {
    return InvalidFields(violations);
  }
  GraphBuilder b("resnet");
  ValueId x =
      b.Input("images", {Dtype::kFloat32, {Dim::Batch(), config.in_channels, config.image_size, config.image_size}});
  x = ConvNorm(b, "conv1", "bn1", x, {.out_channels = config.widths[0], .kernel_size = 3, .padding = 1});
  x = b.Relu("relu", x);
  for (size_t stage = 0; stage < config.widths.size(); ++stage) {
    for (int64_t block = 0; block < config.blocks_per_stage; ++block) {
      const std::string path = absl::StrCat("layer", stage + 1, ".", block);
      x = BasicBlock(b, path, x, config.widths[stage], stage > 0 && block == 0 ? 2 : 1);
    }
  }
  x = b.Flatten("", b.GlobalAvgPool2d("avgpool", x));
  b.Output("logits", b.Linear("fc", x, config.num_classes));
  return std::move(b).Build();
}

}  // namespace ampd::models
