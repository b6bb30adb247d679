#include "models/models.h"

#include <google/protobuf/descriptor.h>

#include "base/error.h"
#include "models/bert.h"
#include "models/dcgan.h"
#include "models/efficientnet.h"
#include "models/gpt2.h"
#include "models/lenet.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "models/rnn.h"

namespace ampd::models {

std::string KindOf(const v1::ModelSpec& spec) {
  const google::protobuf::FieldDescriptor* const kind =
      spec.GetReflection()->GetOneofFieldDescriptor(spec, spec.GetDescriptor()->FindOneofByName("kind"));
  return kind == nullptr ? "" : kind->name();
}

bool IsGan(const v1::ModelSpec& spec) {
  return spec.has_dcgan() || spec.exported().head() == v1::ExportedModelSpec::GAN;
}

void FillDefaults(v1::ModelSpec& spec) {
  if (spec.has_lenet()) {
    FillDefaults(*spec.mutable_lenet());
  } else if (spec.has_mlp()) {
    FillDefaults(*spec.mutable_mlp());
  } else if (spec.has_resnet()) {
    FillDefaults(*spec.mutable_resnet());
  } else if (spec.has_gpt2()) {
    FillDefaults(*spec.mutable_gpt2());
  } else if (spec.has_efficientnet_b0()) {
    FillDefaults(*spec.mutable_efficientnet_b0());
  } else if (spec.has_bert_classifier()) {
    FillDefaults(*spec.mutable_bert_classifier());
  } else if (spec.has_rnn()) {
    FillDefaults(*spec.mutable_rnn());
  } else if (spec.has_dcgan()) {
    FillDefaults(*spec.mutable_dcgan());
  }
}

int64_t SequenceLengthOf(const v1::DataSource& source) {
  return source.has_jsonl() ? source.jsonl().sequence_length() : source.tokens().sequence_length();
}

const v1::DataSource& MainSourceOf(const v1::JobSpec& spec) {
  return spec.has_predict() ? spec.data().predict() : spec.data().train();
}

absl::StatusOr<graph::Graph> BuildModel(const v1::JobSpec& spec) {
  return BuildModel(spec.model(), SequenceLengthOf(MainSourceOf(spec)));
}

absl::StatusOr<graph::Graph> BuildModel(const v1::ModelSpec& spec, int64_t sequence_length) {
  switch (spec.kind_case()) {
    case v1::ModelSpec::kLenet:
      return BuildLenet(spec.lenet());
    case v1::ModelSpec::kMlp:
      return BuildMlp(spec.mlp());
    case v1::ModelSpec::kResnet:
      return BuildResnet(spec.resnet());
    case v1::ModelSpec::kGpt2:
      return BuildGpt2(spec.gpt2(), sequence_length);
    case v1::ModelSpec::kEfficientnetB0:
      return BuildEfficientNet(spec.efficientnet_b0());
    case v1::ModelSpec::kBertClassifier:
      return BuildBertClassifier(spec.bert_classifier(), sequence_length);
    case v1::ModelSpec::kRnn:
      return BuildRnn(spec.rnn(), sequence_length);
    case v1::ModelSpec::kDcgan:
      return BuildDcgan(spec.dcgan());
    case v1::ModelSpec::KIND_NOT_SET:
      return InvalidFields(
          {{"model",
            "is not set; give lenet, mlp, resnet, efficientnet_b0, gpt2, bert_classifier, rnn, dcgan or exported"}});
    default:
      return UnsupportedField("model." + KindOf(spec), "only the worker that has the file can build it");
  }
}

}  // namespace ampd::models
