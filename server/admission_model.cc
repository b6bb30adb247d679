#include <algorithm>

#include "absl/strings/str_split.h"
#include "server/admission.h"
#include "server/admission_findings.h"

namespace ampd::server {
namespace {

constexpr int64_t kMaxParameters = int64_t{1} << 31;
constexpr int64_t kMaxSampleNumbers = 1 << 28;

void AdmitLenet(v1::LenetSpec* lenet, Findings& findings) {
  if (lenet->num_classes() == 0) lenet->set_num_classes(10);
  if (lenet->hidden() == 0) lenet->set_hidden(128);
  if (lenet->in_channels() == 0) lenet->set_in_channels(1);
  if (lenet->image_size() == 0) lenet->set_image_size(28);
  if (lenet->widths().empty()) {
    lenet->add_widths(32);
    lenet->add_widths(64);
  }
  findings.Range("model.lenet.num_classes", lenet->num_classes(), 2, 1 << 20);
  findings.Range("model.lenet.hidden", lenet->hidden(), 1, 1 << 16);
  findings.Range("model.lenet.in_channels", lenet->in_channels(), 1, 4096);
  findings.Range("model.lenet.image_size", lenet->image_size(), 1, 4096);
  if (lenet->widths_size() > 6) {
    findings.Wrong("model.lenet.widths", absl::StrCat("has ", lenet->widths_size(), " entries; at most 6"));
    return;
  }
  for (int i = 0; i < lenet->widths_size(); ++i) {
    findings.Range(absl::StrCat("model.lenet.widths[", i, "]"), lenet->widths(i), 1, 4096);
  }
  if (lenet->image_size() >= 1 && lenet->image_size() >> lenet->widths_size() == 0) {
    findings.Wrong("model.lenet.image_size",
                   absl::StrCat("is ", lenet->image_size(), "; must be at least ", 1 << lenet->widths_size(), " for ",
                                lenet->widths_size(), " poolings"));
  }
}

void AdmitMlp(v1::MlpSpec* mlp, Findings& findings) {
  if (mlp->in_features() == 0) mlp->set_in_features(784);
  if (mlp->num_classes() == 0) mlp->set_num_classes(10);
  if (mlp->hidden().empty()) mlp->add_hidden(256);
  findings.Range("model.mlp.in_features", mlp->in_features(), 1, 1 << 24);
  findings.Range("model.mlp.num_classes", mlp->num_classes(), 2, 1 << 20);
  if (mlp->hidden_size() > 64) {
    findings.Wrong("model.mlp.hidden", absl::StrCat("has ", mlp->hidden_size(), " entries; at most 64"));
    return;
  }
  for (int i = 0; i < mlp->hidden_size(); ++i) {
    findings.Range(absl::StrCat("model.mlp.hidden[", i, "]"), mlp->hidden(i), 1, 1 << 16);
  }
}

int64_t CountLenet(const v1::LenetSpec& lenet) {
  int64_t count = 0;
  int64_t channels = lenet.in_channels();
  for (const int32_t width : lenet.widths()) {
    count += channels * width * 9 + width;
    channels = width;
  }
  const int64_t side = lenet.image_size() >> std::min(lenet.widths_size(), 30);
  count += (channels * side * side + 1) * lenet.hidden();
  return count + (int64_t{lenet.hidden()} + 1) * lenet.num_classes();
}

int64_t CountMlp(const v1::MlpSpec& mlp) {
  int64_t count = 0;
  int64_t features = mlp.in_features();
  for (const int32_t width : mlp.hidden()) {
    count += (features + 1) * width;
    features = width;
  }
  return count + (features + 1) * mlp.num_classes();
}

void AdmitIdx(const std::string& field, v1::IdxSource* idx, Findings& findings) {
  AdmitPath(field + ".images", idx->images(), findings);
  AdmitPath(field + ".labels", idx->labels(), findings);
  if (!idx->has_mean()) idx->set_mean(0);
  if (!idx->has_std()) idx->set_std(1);
  findings.Real(field + ".mean", idx->mean(), -kMaxReal, kMaxReal);
  findings.Real(field + ".std", idx->std(), 0, kMaxReal, /*open_least=*/true);
  findings.Range(field + ".limit", idx->limit(), 0, int64_t{1} << 40);
}

// The number of numbers in one sample; 0 when the shape is wrong.
int64_t AdmitShape(const std::string& field, const v1::SyntheticSource& source, Findings& findings) {
  int64_t count = source.shape_size() > 0 && source.shape_size() <= 8 ? 1 : 0;
  for (int64_t extent : source.shape()) {
    count = extent < 1 || extent > kMaxSampleNumbers ? 0 : std::min(count * extent, kMaxSampleNumbers + 1);
  }
  if (count == 0 || count > kMaxSampleNumbers) {
    findings.Wrong(field + ".shape",
                   absl::StrCat("must have 1 to 8 positive extents with a product of at most ", kMaxSampleNumbers));
    return 0;
  }
  return count;
}

void CheckShapeFits(const std::string& field, const v1::SyntheticSource& source, int64_t count,
                    const v1::ModelSpec& model, Findings& findings) {
  int64_t needed = model.mlp().in_features();
  int num_classes = model.mlp().num_classes();
  if (model.has_lenet()) {
    needed = int64_t{model.lenet().in_channels()} * model.lenet().image_size() * model.lenet().image_size();
    num_classes = model.lenet().num_classes();
  } else if (!model.has_mlp()) {
    return;
  }
  if (count != 0 && count != needed) {
    findings.Wrong(field + ".shape", absl::StrCat("has ", count, " numbers a sample; the model takes ", needed));
  }
  if (source.num_classes() > num_classes) {
    findings.Wrong(field + ".num_classes",
                   absl::StrCat("is ", source.num_classes(), "; the model has ", num_classes, " classes"));
  }
}

void AdmitSynthetic(const std::string& field, v1::SyntheticSource* source, const v1::ModelSpec& model,
                    Findings& findings) {
  if (!source->has_noise()) source->set_noise(1);
  const int64_t count = AdmitShape(field, *source, findings);
  findings.Range(field + ".num_classes", source->num_classes(), 2, 1 << 20);
  findings.Range(field + ".num_samples", source->num_samples(), 1, int64_t{1} << 40);
  findings.Real(field + ".noise", source->noise(), 0, kMaxReal);
  CheckShapeFits(field, *source, count, model, findings);
}

void AdmitSource(const std::string& field, v1::DataSource* source, const v1::ModelSpec& model, Findings& findings) {
  switch (source->kind_case()) {
    case v1::DataSource::kIdx:
      return AdmitIdx(field + ".idx", source->mutable_idx(), findings);
    case v1::DataSource::kSynthetic:
      return AdmitSynthetic(field + ".synthetic", source->mutable_synthetic(), model, findings);
    default:
      findings.Wrong(field, "must have one of idx, synthetic");
  }
}

}  // namespace

int64_t CountParameters(const v1::ModelSpec& model) {
  return model.has_lenet() ? CountLenet(model.lenet()) : CountMlp(model.mlp());
}

void AdmitPath(const std::string& field, const std::string& path, Findings& findings) {
  if (path.empty()) {
    return findings.Missing(field);
  }
  if (path.size() > 4096) {
    return findings.Wrong(field, absl::StrCat("has ", path.size(), " bytes; at most 4096"));
  }
  if (std::any_of(path.begin(), path.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    return findings.Wrong(field, "has a control character");
  }
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  const bool odd = std::any_of(parts.begin(), parts.end(),
                               [](const std::string& part) { return part.empty() || part == "." || part == ".."; });
  if (odd || parts.size() < 2) {
    findings.Wrong(field, absl::StrCat("is \"", path, "\"; must be <data root>/<path>, without \"..\""));
  }
}

void AdmitModel(v1::ModelSpec* model, Findings& findings) {
  switch (model->kind_case()) {
    case v1::ModelSpec::kLenet:
      AdmitLenet(model->mutable_lenet(), findings);
      break;
    case v1::ModelSpec::kMlp:
      AdmitMlp(model->mutable_mlp(), findings);
      break;
    case v1::ModelSpec::kExported:
      return findings.Unsupported("model.exported", "this server does not train exported models yet");
    default:
      return findings.Wrong("model", "must have one of lenet, mlp");
  }
  if (!model->initial_weights().empty()) {
    AdmitPath("model.initial_weights", model->initial_weights(), findings);
  }
  if (findings.ToStatus().ok() && CountParameters(*model) > kMaxParameters) {
    findings.Wrong("model", absl::StrCat("has ", CountParameters(*model), " parameters; at most ", kMaxParameters));
  }
}

void AdmitData(v1::JobSpec* spec, Findings& findings) {
  v1::DataSpec* data = spec->mutable_data();
  if (!data->has_train()) {
    findings.Missing("data.train");
  } else {
    AdmitSource("data.train", data->mutable_train(), spec->model(), findings);
  }
  if (data->has_eval()) {
    AdmitSource("data.eval", data->mutable_eval(), spec->model(), findings);
  }
  findings.Range("data.batch_size", data->batch_size(), 1, 1 << 20);
  if (data->eval_batch_size() == 0) data->set_eval_batch_size(data->batch_size());
  if (data->batch_size() >= 1) {
    findings.Range("data.eval_batch_size", data->eval_batch_size(), 1, 1 << 20);
  }
}

}  // namespace ampd::server
