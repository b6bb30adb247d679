#include "models/models.h"

#include "base/error.h"
#include "models/resnet.h"

namespace ampd::models {

void FillDefaults(v1::ModelSpec& spec) {
  if (spec.has_lenet()) {
    FillDefaults(*spec.mutable_lenet());
  } else if (spec.has_mlp()) {
    FillDefaults(*spec.mutable_mlp());
  } else if (spec.has_resnet()) {
    FillDefaults(*spec.mutable_resnet());
  }
}

absl::StatusOr<graph::Graph> BuildModel(const v1::ModelSpec& spec) {
  switch (spec.kind_case()) {
    case v1::ModelSpec::kLenet:
      return BuildLenet(spec.lenet());
    case v1::ModelSpec::kMlp:
      return BuildMlp(spec.mlp());
    case v1::ModelSpec::kResnet:
      return BuildResnet(spec.resnet());
    case v1::ModelSpec::kExported:
      return UnsupportedField("model.exported",
                              "models exported from Python are not supported yet; use lenet, mlp or resnet");
    case v1::ModelSpec::KIND_NOT_SET:
      break;
  }
  return InvalidFields({{"model", "is not set; give lenet, mlp or resnet"}});
}

}  // namespace ampd::models
