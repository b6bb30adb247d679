#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/vocabulary.h"
#include "models/models.h"
#include "server/admission/admission.h"
#include "server/admission/admission_findings.h"

namespace ampd::server {
namespace {

constexpr int64_t kMaxParameters = int64_t{1} << 31;
constexpr int64_t kMaxSampleNumbers = 1 << 28;

// The number of elements of a tensor with this shape. A batch dimension counts as 1, so the result is the number for
// one sample.
int64_t Numbers(const graph::Shape& shape) {
  int64_t count = 1;
  for (const graph::Dim& dim : shape) {
    count *= dim.factor();
  }
  return count;
}

// Whether a model has more trainable parameters than a server accepts.
bool IsTooLarge(const graph::Graph& model) {
  int64_t count = 0;
  for (const graph::State& parameter : model.parameters()) {
    count += Numbers(model.type(parameter.value).shape);
  }
  return count > kMaxParameters;
}

void AdmitIdx(const std::string& field, v1::IdxSource* idx, bool reads_labels, Findings& findings) {
  AdmitPath(field + ".images", idx->images(), findings);
  AdmitLabelsPath(field + ".labels", idx->labels(), reads_labels, findings);
  if (!idx->has_mean()) idx->set_mean(0);
  if (!idx->has_std()) idx->set_std(1);
  findings.Real(field + ".mean", idx->mean(), -kMaxReal, kMaxReal);
  findings.Real(field + ".std", idx->std(), 0, kMaxReal, /*open_least=*/true);
  CheckByteMapping(field + ".std", idx->mean(), idx->std(), findings);
  findings.Range(field + ".limit", idx->limit(), 0, int64_t{1} << 40);
}

// Checks the shape of synthetic samples. Returns the number of values in one sample; 0 if the shape is wrong.
int64_t AdmitShape(const std::string& field, const v1::SyntheticSource& source, Findings& findings) {
  int64_t count = source.shape_size() > 0 && source.shape_size() <= 8 ? 1 : 0;
  for (int64_t extent : source.shape()) {
    count = extent < 1 || extent > kMaxSampleNumbers ? 0 : std::min(count * extent, kMaxSampleNumbers + 1);
  }
  if (count == 0 || count > kMaxSampleNumbers) {
    const std::string given = source.shape_size() > 8 ? absl::StrCat("has ", source.shape_size(), " extents")
                                                      : absl::StrCat("is [", absl::StrJoin(source.shape(), ", "), "]");
    findings.Wrong(field + ".shape", absl::StrCat(given,
                                                  "; must have 1 to 8 positive extents, as [1, 28, 28], with a product "
                                                  "of at most ",
                                                  kMaxSampleNumbers));
    return 0;
  }
  return count;
}

void CheckShapeFits(const std::string& field, const v1::SyntheticSource& source, bool reads_labels, int64_t count,
                    const graph::Graph& model, Findings& findings) {
  if (model.type(model.inputs().front()).dtype == graph::Dtype::kInt64) {
    return;
  }
  const int64_t needed = Numbers(model.type(model.inputs().front()).shape);
  if (count != 0 && count != needed) {
    findings.Wrong(field + ".shape", absl::StrCat("has ", count, " numbers a sample; the model takes ", needed));
  }
  const auto logits = model.FindOutput("logits");
  const int64_t num_classes = logits.has_value() ? model.type(*logits).shape.back().factor() : source.num_classes();
  if (reads_labels && source.num_classes() > num_classes) {
    findings.Wrong(field + ".num_classes",
                   absl::StrCat("is ", source.num_classes(), "; the model has ", num_classes, " classes"));
  }
}

void AdmitSynthetic(const std::string& field, v1::SyntheticSource* source, bool reads_labels, const graph::Graph* model,
                    Findings& findings) {
  if (!source->has_noise()) source->set_noise(1);
  const int64_t count = AdmitShape(field, *source, findings);
  findings.Range(field + ".num_classes", source->num_classes(), 2, 1 << 20);
  findings.Range(field + ".num_samples", source->num_samples(), 1, int64_t{1} << 40);
  findings.Real(field + ".noise", source->noise(), 0, kMaxReal);
  if (model != nullptr) {
    CheckShapeFits(field, *source, reads_labels, count, *model, findings);
  }
}

// Checks a source of tokens. Does not compare the sequence length with the longest that the model accepts; the model's
// own checks do that.
void AdmitTokens(const std::string& field, v1::TokensSource* tokens, Findings& findings) {
  AdmitPath(field + ".path", tokens->path(), findings);
  if (!v1::TokensSource::Format_IsValid(tokens->format())) {
    findings.Wrong(field + ".format", absl::StrCat("is ", tokens->format(), "; must be AUTO, LLM_C, UINT16 or UINT32"));
  }
  if (tokens->sequence_length() == 0) {
    findings.Missing(field + ".sequence_length");
  }
  findings.Range(field + ".limit", tokens->limit(), 0, int64_t{1} << 40);
}

// Checks a source of texts in a JSONL file. Does not compare the sequence length with the longest that the model
// accepts; the model's own checks do that.
void AdmitJsonl(const std::string& field, const v1::JsonlSource& jsonl, const graph::Graph* model, Findings& findings) {
  AdmitPath(field + ".path", jsonl.path(), findings);
  if (jsonl.sequence_length() == 0) {
    findings.Missing(field + ".sequence_length");
  }
  const auto vocabulary = model == nullptr ? std::nullopt : graph::VocabularyOf(*model, "input_ids");
  findings.Range(field + ".pad_token", jsonl.pad_token(), 0,
                 vocabulary.value_or(std::numeric_limits<int32_t>::max()) - 1);
  findings.Range(field + ".limit", jsonl.limit(), 0, int64_t{1} << 40);
}

const char* WhatItHas(const v1::DataSource& source) {
  return source.has_tokens() ? "text" : source.has_jsonl() ? "texts of a class each" : "images";
}

const char* WhatItTakes(const graph::Graph& model) {
  if (model.type(model.inputs().front()).dtype != graph::Dtype::kInt64) {
    return "images";
  }
  const bool is_language_model = model.type(*model.FindOutput("logits")).shape.size() == 3;
  return is_language_model ? "text" : "texts of a class each";
}

void CheckKindFits(const std::string& field, const v1::DataSource& source, const graph::Graph& model,
                   Findings& findings) {
  const std::string has = WhatItHas(source);
  const std::string takes = WhatItTakes(model);
  if (has != takes) {
    const auto* const kind =
        source.GetReflection()->GetOneofFieldDescriptor(source, source.GetDescriptor()->FindOneofByName("kind"));
    findings.Wrong(absl::StrCat(field, ".", kind->name()),
                   absl::StrCat("has ", has, "; model.", model.name(), " takes ", takes));
  }
}

}  // namespace

void AdmitSource(const std::string& field, v1::DataSource* source, bool reads_labels, const graph::Graph* model,
                 Findings& findings) {
  if (model != nullptr && source->kind_case() != v1::DataSource::KIND_NOT_SET) {
    CheckKindFits(field, *source, *model, findings);
  }
  switch (source->kind_case()) {
    case v1::DataSource::kIdx:
      return AdmitIdx(field + ".idx", source->mutable_idx(), reads_labels, findings);
    case v1::DataSource::kCifar:
      return AdmitCifar(field + ".cifar", source->mutable_cifar(), reads_labels, model, findings);
    case v1::DataSource::kNpz:
      return AdmitNpz(field + ".npz", source->mutable_npz(), reads_labels, findings);
    case v1::DataSource::kSafetensors:
      return AdmitSafetensors(field + ".safetensors", source->mutable_safetensors(), findings);
    case v1::DataSource::kSynthetic:
      return AdmitSynthetic(field + ".synthetic", source->mutable_synthetic(), reads_labels, model, findings);
    case v1::DataSource::kTokens:
      return AdmitTokens(field + ".tokens", source->mutable_tokens(), findings);
    case v1::DataSource::kJsonl:
      return AdmitJsonl(field + ".jsonl", source->jsonl(), model, findings);
    default:
      findings.Wrong(field, "must have one of idx, cifar, npz, safetensors, synthetic, tokens, jsonl");
  }
}

namespace {

// Checks data.augment, which needs images. Refuses text, and synthetic samples that are not images. Only the worker
// knows what samples a file has.
void AdmitAugmentation(const v1::DataSpec& data, Findings& findings) {
  constexpr int kMaxPadding = 64;
  findings.Range("data.augment.crop_padding", data.augment().crop_padding(), 0, kMaxPadding);
  const bool has_numbers = data.train().has_synthetic() && data.train().synthetic().shape_size() != 3;
  if (data.train().has_tokens() || data.train().has_jsonl() || has_numbers) {
    findings.Wrong("data.augment",
                   absl::StrCat("changes images; data.train has ",
                                has_numbers ? "samples that are not of channels, height and width" : "text"));
  }
}

void AdmitLastBatch(v1::DataSpec* data, Findings& findings) {
  if (data->last_batch() == v1::DataSpec::LAST_BATCH_UNSPECIFIED) data->set_last_batch(v1::DataSpec::DROP);
  if (!v1::DataSpec::LastBatch_IsValid(data->last_batch())) {
    findings.Wrong("data.last_batch", absl::StrCat("is ", data->last_batch(), "; must be DROP or PAD"));
  }
}

void AdmitInitializeAnew(const v1::ModelSpec& model, Findings& findings) {
  constexpr int kMaxGlobs = 64;
  constexpr size_t kMaxGlobBytes = 256;
  const std::string field = "model.initialize_anew";
  if (model.initialize_anew_size() > 0 && model.initial_weights().empty() && !model.has_initial_checkpoint()) {
    findings.Wrong(
        field, "is set, but there are no model.initial_weights and no model.initial_checkpoint to leave tensors of");
  }
  if (model.initialize_anew_size() > kMaxGlobs) {
    return findings.Wrong(field, absl::StrCat("has ", model.initialize_anew_size(), " entries; at most ", kMaxGlobs));
  }
  for (int i = 0; i < model.initialize_anew_size(); ++i) {
    const std::string& glob = model.initialize_anew(i);
    if (glob.empty() || glob.size() > kMaxGlobBytes) {
      findings.Wrong(absl::StrCat(field, "[", i, "]"),
                     absl::StrCat("has ", glob.size(), " bytes; must have 1 to ", kMaxGlobBytes));
    }
  }
}

// Checks the field's form. The coordinator checks whether the checkpoint exists.
void AdmitInitialCheckpoint(const v1::ModelSpec& model, Findings& findings) {
  const std::string field = "model.initial_checkpoint";
  if (!model.initial_weights().empty()) {
    findings.Wrong(field, "is set beside model.initial_weights; a model begins with one of them");
  }
  if (model.initial_checkpoint().job_id().empty()) {
    findings.Missing(field + ".job_id");
  }
  findings.Range(field + ".step", model.initial_checkpoint().step(), 0, int64_t{1} << 40);
}

// Requires that evaluation data has the sequence length of the training data, for which the model is built. `Source` is
// TokensSource or JsonlSource; `name` is its field in DataSource.
template <typename Source>
void AdmitEvalLength(const char* name, const Source& train, Source* eval, Findings& findings) {
  if (eval->sequence_length() == 0) eval->set_sequence_length(train.sequence_length());
  if (eval->sequence_length() != train.sequence_length()) {
    findings.Wrong(absl::StrCat("data.eval.", name, ".sequence_length"),
                   absl::StrCat("is ", eval->sequence_length(), "; must be data.train's, ", train.sequence_length()));
  }
}

}  // namespace

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
  if (absl::StrContains(path, "://")) {
    return findings.Wrong(field, absl::StrCat("is \"", path,
                                              "\"; ampd downloads no files: put the file into a data root of the "
                                              "worker, and write <data root>/<path> (docs/data.md)"));
  }
  if (parts.front().empty() || parts.front().ends_with(':') || parts.size() < 2) {
    return findings.Wrong(field, absl::StrCat("is \"", path,
                                              "\"; must be <data root>/<path>: paths begin with the name "
                                              "of a data root (docs/data.md)"));
  }
  if (odd) {
    findings.Wrong(field,
                   absl::StrCat("is \"", path, "\"; must be <data root>/<path>, without \".\", \"..\" and \"//\""));
  }
}

void AdmitLabelsPath(const std::string& field, const std::string& path, bool reads_labels, Findings& findings) {
  if (reads_labels || !path.empty()) {
    AdmitPath(field, path, findings);
  }
}

std::optional<AdmittedModel> AdmitModel(v1::ModelSpec* model, int64_t sequence_length,
                                        const graph::ExportedModel* uploaded, Findings& findings) {
  models::FillDefaults(*model);
  if (!model->initial_weights().empty()) {
    AdmitPath("model.initial_weights", model->initial_weights(), findings);
  }
  if (model->has_initial_checkpoint()) {
    AdmitInitialCheckpoint(*model, findings);
  }
  AdmitInitializeAnew(*model, findings);
  if (model->has_exported()) {
    return AdmitExported(model->exported(), sequence_length, uploaded, findings);
  }
  absl::StatusOr<graph::Graph> graph = models::BuildModel(*model, sequence_length);
  if (!graph.ok()) {
    findings.Take(graph.status());
    return std::nullopt;
  }
  if (IsTooLarge(*graph)) {
    findings.Wrong("model", absl::StrCat("has more than ", kMaxParameters, " parameters"));
    return std::nullopt;
  }
  return AdmittedModel{.graph = *std::move(graph), .warnings = {}};
}

void AdmitData(v1::JobSpec* spec, const graph::Graph* model, Findings& findings) {
  v1::DataSpec* data = spec->mutable_data();
  const bool reads_labels = !models::IsGan(spec->model());
  if (data->has_predict()) {
    findings.Wrong("data.predict", "is set, but the job does not predict; a job with \"predict: {}\" does");
  }
  AdmitSource("data.train", data->mutable_train(), reads_labels, model, findings);
  if (data->has_eval() && models::IsGan(spec->model())) {
    findings.Wrong("data.eval", absl::StrCat("is set; model.", models::KindOf(spec->model()),
                                             " is not evaluated: its losses are those of two networks against each "
                                             "other, and neither says how good the images are"));
  } else if (data->has_eval()) {
    if (data->train().has_tokens() && data->eval().has_tokens()) {
      AdmitEvalLength("tokens", data->train().tokens(), data->mutable_eval()->mutable_tokens(), findings);
    }
    if (data->train().has_jsonl() && data->eval().has_jsonl()) {
      AdmitEvalLength("jsonl", data->train().jsonl(), data->mutable_eval()->mutable_jsonl(), findings);
    }
    AdmitSource("data.eval", data->mutable_eval(), reads_labels, model, findings);
  }
  if (data->has_augment()) {
    AdmitAugmentation(*data, findings);
  }
  AdmitLastBatch(data, findings);
  findings.Range("data.batch_size", data->batch_size(), 1, kMaxBatchSize);
  if (data->eval_batch_size() == 0) {
    // The default is the size of a micro-batch, for which the memory of a step was estimated.
    data->set_eval_batch_size(std::max(1, data->batch_size() / std::max(1, spec->train().gradient_accumulation())));
  } else if (data->batch_size() >= 1) {
    findings.Range("data.eval_batch_size", data->eval_batch_size(), 1, kMaxBatchSize);
  }
}

}  // namespace ampd::server
