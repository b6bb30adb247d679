#include "models/models.h"

#include "base/error.h"

namespace ampd::models {

absl::StatusOr<graph::Graph> BuildModel(const v1::ModelSpec& spec) {
  switch (spec.kind_case()) {
    case v1::ModelSpec::kLenet:
      return BuildLenet(spec.lenet());
    case v1::ModelSpec::kMlp:
      return BuildMlp(spec.mlp());
    case v1::ModelSpec::kExported:
      return UnsupportedField("model.exported", "models exported from Python are not supported yet; use lenet or mlp");
    case v1::ModelSpec::KIND_NOT_SET:
      break;
  }
  return InvalidFields({{"model", "is not set; give lenet or mlp"}});
}

}  // namespace ampd::models
