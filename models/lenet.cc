#include "models/lenet.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "graph/builder/builder.h"
#include "models/limits.h"

namespace ampd::models {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::ValueId;

constexpr int kMaxConvolutions = 6;

std::vector<FieldViolation> Violations(const v1::LenetSpec& lenet) {
  Limits limits("model.lenet");
  limits.Within("num_classes", lenet.num_classes(), 2, kMaxClasses);
  limits.Within("hidden", lenet.hidden(), 1, kMaxFeatures);
  limits.Within("in_channels", lenet.in_channels(), 1, kMaxWidth);
  limits.Within("image_size", lenet.image_size(), 2, kMaxImageSize);
  const int num_widths = lenet.widths_size();
  if (limits.Within("widths", num_widths, 1, kMaxConvolutions, " entries")) {
    for (int i = 0; i < num_widths; ++i) {
      limits.Within(absl::StrCat("widths[", i, "]"), lenet.widths(i), 1, kMaxWidth);
    }
    // Pooling halves the image after each convolution. The image must be large enough that one pixel remains.
    const int64_t smallest = int64_t{1} << num_widths;
    if (lenet.image_size() >= 2 && lenet.image_size() < smallest) {
      limits.Add("image_size", absl::StrCat(lenet.image_size(), " pixels cannot be halved by ", num_widths,
                                            " poolings; it must be at least ", smallest, ", or give fewer widths"));
    }
  }
  return std::move(limits).violations();
}

}  // namespace

void FillDefaults(v1::LenetSpec& spec) {
  if (spec.num_classes() == 0) spec.set_num_classes(10);
  if (spec.hidden() == 0) spec.set_hidden(128);
  if (spec.in_channels() == 0) spec.set_in_channels(1);
  if (spec.image_size() == 0) spec.set_image_size(28);
  if (spec.widths().empty()) {
    spec.add_widths(32);
    spec.add_widths(64);
  }
}

absl::StatusOr<graph::Graph> BuildLenet(const v1::LenetSpec& spec) {
  v1::LenetSpec lenet = spec;
  FillDefaults(lenet);
  if (const auto violations = Violations(lenet); !violations.empty()) {
    return InvalidFields(violations);
  }
  GraphBuilder b("lenet");
  ValueId x =
      b.Input("images", {Dtype::kFloat32, {Dim::Batch(), lenet.in_channels(), lenet.image_size(), lenet.image_size()}});
  int layer = 0;
  const auto next = [&layer] { return absl::StrCat("features.", layer++); };
  for (int64_t width : lenet.widths()) {
    x = b.Conv2d(next(), x, {.out_channels = width, .kernel_size = 3, .padding = 1});
    x = b.Relu(next(), x);
    x = b.MaxPool2d(next(), x, {.kernel_size = 2});
  }
  x = b.Flatten("", x);
  x = b.Relu("classifier.1", b.Linear("classifier.0", x, lenet.hidden()));
  b.Output("logits", b.Linear("classifier.2", x, lenet.num_classes()));
  return std::move(b).Build();
}

}  // namespace ampd::models
