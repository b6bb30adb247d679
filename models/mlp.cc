#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "graph/builder.h"
#include "models/limits.h"
#include "models/models.h"

namespace ampd::models {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::ValueId;

constexpr int kMaxHidden = 64;

// A spec with its defaults filled in.
struct Mlp {
  explicit Mlp(const v1::MlpSpec& spec)
      : in_features(OrDefault(spec.in_features(), 784)),
        hidden(spec.hidden().begin(), spec.hidden().end()),
        num_classes(OrDefault(spec.num_classes(), 10)) {
    if (hidden.empty()) {
      hidden = {256};
    }
  }

  int64_t in_features;
  std::vector<int64_t> hidden;
  int64_t num_classes;
};

std::vector<FieldViolation> Violations(const Mlp& mlp) {
  Limits limits("model.mlp");
  limits.Within("in_features", mlp.in_features, 1, kMaxFeatures);
  limits.Within("num_classes", mlp.num_classes, 2, kMaxClasses);
  const int num_hidden = static_cast<int>(mlp.hidden.size());
  if (limits.Within("hidden", num_hidden, 1, kMaxHidden, " entries")) {
    for (int i = 0; i < num_hidden; ++i) {
      limits.Within(absl::StrCat("hidden[", i, "]"), mlp.hidden[static_cast<size_t>(i)], 1, kMaxFeatures);
    }
  }
  return std::move(limits).violations();
}

}  // namespace

absl::StatusOr<graph::Graph> BuildMlp(const v1::MlpSpec& spec) {
  const Mlp mlp(spec);
  if (const auto violations = Violations(mlp); !violations.empty()) {
    return InvalidFields(violations);
  }
  GraphBuilder b("mlp");
  ValueId x = b.Flatten("", b.Input("images", {Dtype::kFloat32, {Dim::Batch(), mlp.in_features}}));
  int layer = 0;
  const auto next = [&layer] { return absl::StrCat("layers.", layer++); };
  for (int64_t width : mlp.hidden) {
    x = b.Linear(next(), x, width);
    x = b.Relu(next(), x);
  }
  b.Output("logits", b.Linear(next(), x, mlp.num_classes));
  return std::move(b).Build();
}

}  // namespace ampd::models
