#include "models/mlp.h"

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

constexpr int kMaxHidden = 64;

std::vector<FieldViolation> Violations(const v1::MlpSpec& mlp) {
  Limits limits("model.mlp");
  limits.Within("in_features", mlp.in_features(), 1, kMaxFeatures);
  limits.Within("num_classes", mlp.num_classes(), 2, kMaxClasses);
  const int num_hidden = mlp.hidden_size();
  if (limits.Within("hidden", num_hidden, 1, kMaxHidden, " entries")) {
    for (int i = 0; i < num_hidden; ++i) {
      limits.Within(absl::StrCat("hidden[", i, "]"), mlp.hidden(i), 1, kMaxFeatures);
    }
  }
  return std::move(limits).violations();
}

}  // namespace

void FillDefaults(v1::MlpSpec& spec) {
  if (spec.in_features() == 0) spec.set_in_features(784);
  if (spec.num_classes() == 0) spec.set_num_classes(10);
  if (spec.hidden().empty()) spec.add_hidden(256);
}

absl::StatusOr<graph::Graph> BuildMlp(const v1::MlpSpec& spec) {
  v1::MlpSpec mlp = spec;
  FillDefaults(mlp);
  if (const auto violations = Violations(mlp); !violations.empty()) {
    return InvalidFields(violations);
  }
  GraphBuilder b("mlp");
  ValueId x = b.Flatten("", b.Input("images", {Dtype::kFloat32, {Dim::Batch(), mlp.in_features()}}));
  int layer = 0;
  const auto next = [&layer] { return absl::StrCat("layers.", layer++); };
  for (int64_t width : mlp.hidden()) {
    x = b.Linear(next(), x, width);
    x = b.Relu(next(), x);
  }
  b.Output("logits", b.Linear(next(), x, mlp.num_classes()));
  return std::move(b).Build();
}

}  // namespace ampd::models
