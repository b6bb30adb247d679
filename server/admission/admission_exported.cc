// Checks a model that torch.export wrote: the spec's fields, and the content of the file if the server has it.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "graph/exported/import.h"
#include "graph/heads.h"
#include "graph/losses.h"
#include "graph/vocabulary.h"
#include "models/exported.h"
#include "models/models.h"
#include "server/admission/admission_findings.h"

namespace ampd::server {
namespace {

constexpr int kMaxInputs = 64;        // The most inputs that a spec may rename.
constexpr size_t kMaxRefusedOps = 8;  // The most refused ops that an error names.

// Checks only the form of the digest. The coordinator checks whether the artifact is uploaded.
void AdmitArtifact(const std::string& field, const std::string& artifact, Findings& findings) {
  constexpr size_t kNumDigits = 64;
  const bool is_digest = artifact.size() == kNumDigits && std::all_of(artifact.begin(), artifact.end(), [](char c) {
                           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                         });
  if (!is_digest) {
    findings.Wrong(field, absl::StrCat("is \"", Shortened(artifact, kNumDigits),
                                       "\"; must be the name of an uploaded file: the SHA-256 of its content in 64 "
                                       "hexadecimal digits, 0-9 and a-f"));
  }
}

void AdmitCountOutput(const std::string& field, const v1::ExportedModelSpec& exported, Findings& findings) {
  findings.Range(field, exported.count_output(), 0, 255);
  if (exported.head() != v1::ExportedModelSpec::OWN_LOSS) {
    findings.Wrong(field, "is set, which only the head OWN_LOSS takes; the other heads count their labels themselves");
  } else if (exported.count_output() == exported.output()) {
    findings.Wrong(field, absl::StrCat("is ", exported.count_output(),
                                       ", the output that is the loss; must be another, which gives the number of "
                                       "labels that the loss is the mean of"));
  }
}

// Checks the spec's own fields about the model, without the file.
void AdmitFields(const v1::ExportedModelSpec& exported, Findings& findings) {
  const std::string field = "model.exported";
  if (!exported.artifact().empty()) {
    AdmitArtifact(field + ".artifact", exported.artifact(), findings);
    if (!exported.path().empty()) {
      findings.Wrong(field + ".path", "is set beside model.exported.artifact; a model comes from one of them");
    }
  } else if (exported.path().empty()) {
    findings.Wrong(field, "names no file; set path, or artifact for a file that was uploaded");
  } else {
    AdmitPath(field + ".path", exported.path(), findings);
  }
  if (!v1::ExportedModelSpec::Head_IsValid(exported.head())) {
    findings.Wrong(field + ".head", absl::StrCat("is ", exported.head(),
                                                 "; must be CLASSIFICATION, LANGUAGE_MODEL, REGRESSION, MULTI_LABEL, "
                                                 "OWN_LOSS or GAN"));
  }
  findings.Range(field + ".output", exported.output(), 0, 255);
  if (exported.has_count_output()) {
    AdmitCountOutput(field + ".count_output", exported, findings);
  }
  if (exported.inputs_size() > kMaxInputs) {
    findings.Wrong(field + ".inputs", absl::StrCat("has ", exported.inputs_size(), " entries; at most ", kMaxInputs));
  }
  for (const auto& [input, name] : exported.inputs()) {
    if (input.empty() || name.empty()) {
      findings.Wrong(field + ".inputs", "has an empty name");
    }
  }
}

// Checks that a source can have the labels that the head needs: classes, or numbers that are not classes. Only the
// worker knows the labels themselves.
void CheckHeadFits(const std::string& field, const v1::DataSource& source, v1::ExportedModelSpec::Head head,
                   Findings& findings) {
  const bool is_given = source.kind_case() != v1::DataSource::KIND_NOT_SET;
  const bool takes_classes = head != v1::ExportedModelSpec::REGRESSION && head != v1::ExportedModelSpec::MULTI_LABEL;
  if (is_given && !takes_classes && !source.has_npz() && !source.has_safetensors()) {
    findings.Wrong(field,
                   absl::StrCat("has classes for labels; model.exported.head ", v1::ExportedModelSpec::Head_Name(head),
                                " takes numbers, which data of npz and safetensors may have"));
  }
}

// Reports why a trainer would refuse the file, in the trainer's words. If the file has ops that models may not use,
// reports up to kMaxRefusedOps of them instead of only the first.
void TakeImportError(const graph::ExportedModel& model, const absl::Status& error, Findings& findings) {
  const std::string first(error.message());
  if (ReasonOf(error) != "UNKNOWN_OP") {
    return findings.Wrong(ReasonOf(error) == "SPEC_ERROR" ? "model.exported" : "model.exported.artifact", first);
  }
  std::vector<std::string> refused = {first};
  for (const graph::ExportedProgram* const program : {&model.train, model.eval.has_value() ? &*model.eval : nullptr}) {
    for (std::string& refusal : program == nullptr ? std::vector<std::string>() : graph::RefusedOps(*program)) {
      if (std::find(refused.begin(), refused.end(), refusal) == refused.end() && refused.size() < kMaxRefusedOps) {
        refused.push_back(std::move(refusal));
      }
    }
  }
  for (std::string& refusal : refused) {
    findings.Wrong("model.exported.artifact", std::move(refusal));
  }
}

// Returns the names of the inputs that a source provides. The first is the input with the samples.
std::vector<std::string_view> InputsOf(const v1::DataSource& source) {
  if (source.has_jsonl()) {
    return {"input_ids", "attention_mask", "token_type_ids"};
  }
  return {source.has_tokens() ? "input_ids" : "images"};
}

// The shape of one sample; empty if only the worker knows it.
std::vector<int64_t> SampleShapeOf(const v1::DataSource& source) {
  if (source.has_tokens() || source.has_jsonl()) {
    return {models::SequenceLengthOf(source)};
  }
  if (source.has_cifar()) {
    return {3, 32, 32};
  }
  return {source.synthetic().shape().begin(), source.synthetic().shape().end()};
}

std::vector<int64_t> SampleShapeOf(const graph::Shape& shape) {
  std::vector<int64_t> extents;
  for (const graph::Dim& dim : shape) {
    if (!dim.is_batch()) {
      extents.push_back(dim.factor());
    }
  }
  return extents;
}

// Returns the number of elements of a tensor with this shape; 0 if the number overflows.
int64_t Elements(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(elements, extent, &elements)) {
      return 0;
    }
  }
  return elements;
}

// Whether each array of the source's file provides the input of the same name. Only the worker knows which arrays the
// file has.
bool HasNamedArrays(const v1::DataSource& source) { return source.has_safetensors() || !source.npz().file().empty(); }

// Returns a sentence about an input of the model that the data lacks, or about samples that the model does not accept.
// Empty if everything fits.
std::string WhyInputsMisfit(const v1::DataSource& source, const graph::Graph& model) {
  if (HasNamedArrays(source)) {
    return "";
  }
  const std::vector<std::string_view> names = InputsOf(source);
  if (!model.FindInput(names.front()).has_value()) {
    return absl::StrCat("the data has ", std::string(names.front()), " and the model takes ",
                        model.value(model.inputs().front()).name);
  }
  const bool takes_labels = graph::HeadOf(model) == graph::Head::kOwnLoss;
  const bool takes_noise = !graph::LossesOf(model).empty();
  for (const graph::ValueId input : model.inputs()) {
    const std::string& name = model.value(input).name;
    const bool is_known = std::find(names.begin(), names.end(), name) != names.end() ||
                          (name == "labels" && takes_labels) || (name == "noise" && takes_noise);
    if (!is_known) {
      return absl::StrCat("the model takes ", name, ", which the data does not have");
    }
  }
  return "";
}

std::string WhyLabelsMisfit(const v1::DataSource& source, const graph::Graph& model) {
  const auto logits = model.FindOutput("logits");
  if (!logits.has_value()) {
    const auto own = graph::HeadOf(model) == graph::Head::kOwnLoss ? graph::NumbersOf(model, "labels") : std::nullopt;
    return own.has_value() && source.synthetic().num_classes() > own->num_numbers
               ? absl::StrCat("the data has ", source.synthetic().num_classes(), " classes and the model ",
                              own->num_numbers)
               : "";
  }
  if ((graph::HeadOf(model) == graph::Head::kLanguageModel) != source.has_tokens()) {
    return source.has_tokens() ? "the data has a label for each position, and the model predicts one for each sample"
                               : "the data has a label for each sample, and the model predicts one for each position";
  }
  const int64_t num_classes = model.type(*logits).shape.back().factor();
  return source.synthetic().num_classes() > num_classes
             ? absl::StrCat("the data has ", source.synthetic().num_classes(), " classes and the model ", num_classes)
             : "";
}

std::string WhyShapeMisfits(const v1::DataSource& source, const graph::Graph& model) {
  const std::vector<int64_t> given = SampleShapeOf(source);
  const std::vector<int64_t> taken = SampleShapeOf(model.type(model.inputs().front()).shape);
  const int64_t num_given = Elements(given);
  const int64_t num_taken = Elements(taken);
  if (given.empty() || num_given <= 0) {
    return "";
  }
  if (num_given != num_taken) {
    return absl::StrCat("a sample has ", num_given, " elements and the model takes ", num_taken);
  }
  constexpr size_t kImageRank = 3;
  return given.size() == kImageRank && taken.size() == kImageRank && given != taken
             ? absl::StrCat("an image is (", absl::StrJoin(given, ", "), ") and the model takes (",
                            absl::StrJoin(taken, ", "), "), channels first; channels_last says how a file has them")
             : "";
}

// Checks that the trainer will accept the source, as far as that is known without the file. Errors use the trainer's
// words.
void CheckSamples(const std::string& field, const v1::DataSource& source, const graph::Graph& model,
                  Findings& findings) {
  if (source.kind_case() == v1::DataSource::KIND_NOT_SET) {
    return;
  }
  const auto* const kind =
      source.GetReflection()->GetOneofFieldDescriptor(source, source.GetDescriptor()->FindOneofByName("kind"));
  for (const auto& check : {WhyInputsMisfit, WhyLabelsMisfit, WhyShapeMisfits}) {
    if (const std::string why = check(source, model); !why.empty()) {
      return findings.Wrong(absl::StrCat(field, ".", kind->name()), why);
    }
  }
}

}  // namespace

std::optional<AdmittedModel> AdmitExported(const v1::ExportedModelSpec& exported, int64_t sequence_length,
                                           const graph::ExportedModel* uploaded, Findings& findings) {
  const size_t num_wrong = findings.num_wrong();
  AdmitFields(exported, findings);
  if (uploaded == nullptr || findings.num_wrong() > num_wrong) {
    return std::nullopt;
  }
  auto programs = graph::ImportPrograms(*uploaded, models::ImportOptionsOf(exported, sequence_length));
  if (!programs.ok()) {
    TakeImportError(*uploaded, programs.status(), findings);
    return std::nullopt;
  }
  if (const auto trained = graph::TrainedGraph(programs->train); !trained.ok()) {
    findings.Wrong("model.exported", std::string(trained.status().message()));
    return std::nullopt;
  }
  return AdmittedModel{.graph = std::move(programs->train),
                       .eval = std::move(programs->eval),
                       .warnings = std::move(programs->warnings)};
}

std::string WhyUnseen(const v1::ExportedModelSpec& exported) {
  return exported.artifact().empty() ? "only the worker that has the file knows what is in it; of an uploaded one, "
                                       "model.exported.artifact, the "
                                       "server knows"
                                     : "its programs are larger than this server looks at; the worker reads them";
}

void CheckExportedData(const v1::JobSpec& spec, const graph::Graph* model, Findings& findings) {
  if (spec.has_predict()) {
    if (model != nullptr) {
      CheckSamples("data.predict", spec.data().predict(), *model, findings);
    }
    return;
  }
  for (const auto& [field, source] :
       {std::pair("data.train", &spec.data().train()), std::pair("data.eval", &spec.data().eval())}) {
    CheckHeadFits(field, *source, spec.model().exported().head(), findings);
    if (model != nullptr) {
      CheckSamples(field, *source, *model, findings);
    }
  }
}

}  // namespace ampd::server
