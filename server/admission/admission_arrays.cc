// Checks sources that are arrays of images and labels in files.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/losses.h"
#include "server/admission/admission_findings.h"

namespace ampd::server {
namespace {

constexpr int kMaxFiles = 64;
constexpr int kMaxChannels = 4096;
constexpr int64_t kMaxLimit = int64_t{1} << 40;
constexpr int64_t kMaxNameBytes = 256;
constexpr int64_t kCifarChannels = 3;
constexpr int64_t kCifarNumbers = kCifarChannels * 32 * 32;

using RepeatedNumbers = google::protobuf::RepeatedField<double>;

// Checks mean and std, each of which has one number or one for each channel. `channels` is the number of channels; 0 if
// it is not known here.
void AdmitNormalization(const std::string& field, int channels, RepeatedNumbers* mean, RepeatedNumbers* std,
                        Findings& findings) {
  if (mean->empty()) mean->Add(0);
  if (std->empty()) std->Add(1);
  for (const auto& [name, numbers] : {std::pair(field + ".mean", mean), std::pair(field + ".std", std)}) {
    const int count = numbers->size();
    if (count != 1 && (channels > 0 ? count != channels : count > kMaxChannels)) {
      findings.Wrong(name, absl::StrCat("has ", count, " numbers; must have 1, or one for each ",
                                        channels > 0 ? absl::StrCat("of ", channels, " channels") : "channel"));
    }
    for (int i = 0; i < count && i < kMaxChannels; ++i) {
      findings.Real(absl::StrCat(name, "[", i, "]"), numbers->Get(i), numbers == mean ? -kMaxReal : 0, kMaxReal,
                    /*open_least=*/numbers == std);
    }
  }
}

int64_t NumClasses(v1::CifarSource::Variant variant) {
  switch (variant) {
    case v1::CifarSource::CIFAR100_FINE:
      return 100;
    case v1::CifarSource::CIFAR100_COARSE:
      return 20;
    default:
      return 10;
  }
}

void CheckCifarFits(const std::string& field, const v1::CifarSource& source, bool reads_labels,
                    const graph::Graph& model, Findings& findings) {
  const auto images = model.FindInput("images");
  const auto logits = model.FindOutput("logits");
  if (!images.has_value() || (reads_labels && !logits.has_value() && graph::LossesOf(model).empty())) {
    return findings.Wrong(field, "has images and their classes; the model takes something else");
  }
  int64_t needed = 1;
  for (const graph::Dim& dim : model.type(*images).shape) {
    needed *= dim.factor();
  }
  if (needed != kCifarNumbers) {
    findings.Wrong(field, absl::StrCat("has ", kCifarNumbers, " numbers a sample; the model takes ", needed));
  }
  const int64_t classes = reads_labels ? NumClasses(source.variant()) : 0;
  const int64_t model_classes = logits.has_value() ? model.type(*logits).shape.back().factor() : classes;
  if (classes > model_classes) {
    findings.Wrong(field + ".variant", absl::StrCat("has ", classes, " classes; the model has ", model_classes));
  }
}

void AdmitArrayName(const std::string& field, const char* otherwise, std::string* name, Findings& findings) {
  if (name->empty()) *name = otherwise;
  const bool odd = std::any_of(name->begin(), name->end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (odd || static_cast<int64_t>(name->size()) > kMaxNameBytes) {
    findings.Wrong(field, absl::StrCat("must be the name of an array: at most ", kMaxNameBytes,
                                       " bytes without control characters"));
  }
}

}  // namespace

void AdmitCifar(const std::string& field, v1::CifarSource* source, bool reads_labels, const graph::Graph* model,
                Findings& findings) {
  if (source->variant() == v1::CifarSource::VARIANT_UNSPECIFIED) source->set_variant(v1::CifarSource::CIFAR10);
  if (!v1::CifarSource::Variant_IsValid(source->variant())) {
    findings.Wrong(field + ".variant", absl::StrCat("is ", source->variant(), ", which this server does not know"));
  }
  if (source->files().empty()) {
    findings.Missing(field + ".files");
  } else if (source->files_size() > kMaxFiles) {
    findings.Wrong(field + ".files", absl::StrCat("has ", source->files_size(), " files; at most ", kMaxFiles));
  }
  for (int i = 0; i < source->files_size() && i < kMaxFiles; ++i) {
    AdmitPath(absl::StrCat(field, ".files[", i, "]"), source->files(i), findings);
  }
  AdmitNormalization(field, kCifarChannels, source->mutable_mean(), source->mutable_std(), findings);
  const int num_channels = std::max(source->mean_size(), source->std_size());
  for (int i = 0; i < std::min(num_channels, static_cast<int>(kCifarChannels)); ++i) {
    CheckByteMapping(absl::StrCat(field, ".std[", std::min(i, source->std_size() - 1), "]"),
                     source->mean(std::min(i, source->mean_size() - 1)),
                     source->std(std::min(i, source->std_size() - 1)), findings);
  }
  findings.Range(field + ".limit", source->limit(), 0, kMaxLimit);
  if (model != nullptr) {
    CheckCifarFits(field, *source, reads_labels, *model, findings);
  }
}

void AdmitNpz(const std::string& field, v1::NpzSource* source, bool reads_labels, Findings& findings) {
  if (source->file().empty()) {
    AdmitPath(field + ".images", source->images(), findings);
    AdmitLabelsPath(field + ".labels", source->labels(), reads_labels, findings);
  } else {
    AdmitPath(field + ".file", source->file(), findings);
    AdmitArrayName(field + ".images", "images", source->mutable_images(), findings);
    AdmitArrayName(field + ".labels", "labels", source->mutable_labels(), findings);
  }
  AdmitNormalization(field, 0, source->mutable_mean(), source->mutable_std(), findings);
  findings.Range(field + ".limit", source->limit(), 0, kMaxLimit);
}

void AdmitSafetensors(const std::string& field, v1::SafetensorsSource* source, Findings& findings) {
  AdmitPath(field + ".file", source->file(), findings);
  AdmitArrayName(field + ".images", "images", source->mutable_images(), findings);
  AdmitArrayName(field + ".labels", "labels", source->mutable_labels(), findings);
  AdmitNormalization(field, 0, source->mutable_mean(), source->mutable_std(), findings);
  findings.Range(field + ".limit", source->limit(), 0, kMaxLimit);
}

}  // namespace ampd::server
