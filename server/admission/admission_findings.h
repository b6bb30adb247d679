#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "ampd/v1/job_spec.pb.h"
#include "base/error.h"
#include "base/units.h"
#include "graph/exported/exported_program.h"
#include "graph/graph.h"

// Declarations that the admission*.cc files share. No other file includes this header.
namespace ampd::server {

inline constexpr int kMaxBatchSize = 1 << 20;

// Collects the errors of a spec. Thread-compatible.
class Findings {
 public:
  void Wrong(std::string field, std::string description) {
    violations_.push_back({std::move(field), std::move(description)});
  }
  // Reports a field that is set but that this server does not support.
  void Unsupported(std::string field, std::string why) { unsupported_.push_back({std::move(field), std::move(why)}); }
  void UnsupportedIf(bool is_set, std::string field, std::string why = "this server does not support it yet") {
    if (is_set) {
      Unsupported(std::move(field), std::move(why));
    }
  }
  // Reports a value that this server does not support, of a field that it supports.
  void UnsupportedValueIf(bool is_set, std::string field, const std::string& value, const std::string& why) {
    if (is_set) {
      Unsupported(std::move(field), absl::StrCat("is ", value, ", which is not supported: ", why));
    }
  }
  void Missing(std::string field) { Wrong(std::move(field), "must be set"); }

  void Range(std::string field, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most) {
      Wrong(std::move(field), absl::StrCat("is ", value, "; must be ", least, " to ", most));
    }
  }
  // Requires a number of bytes between `least` and `most`. The message also gives `most` in a unit, such as "1MiB".
  void RangeOfBytes(std::string field, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most) {
      Wrong(std::move(field),
            absl::StrCat("is ", value, "; must be ", least, " to ", most, " (", ByteCountText(most), ")"));
    }
  }
  // Requires a finite number between `least` and `most`. `open_least` and `open_most` exclude the limit itself.
  void Real(std::string field, double value, double least, double most, bool open_least = false,
            bool open_most = false) {
    const bool fits = std::isfinite(value) && (open_least ? value > least : value >= least) &&
                      (open_most ? value < most : value <= most);
    if (!fits) {
      Wrong(std::move(field),
            absl::StrCat("is ", Digits(value, least, most), "; must be ", open_least ? "above " : "at least ", least,
                         open_most ? " and below " : " and at most ", most));
    }
  }

  // Returns the value with six digits. If it would then look equal to a limit, returns it with all digits.
  static std::string Digits(double value, double least, double most) {
    std::string text = absl::StrCat(value);
    const bool looks_equal = text == absl::StrCat(least) || text == absl::StrCat(most);
    return looks_equal ? absl::StrFormat("%.17g", value) : text;
  }

  // Adds the violations in a status from another component: UNIMPLEMENTED adds unsupported fields, any other code adds
  // errors.
  void Take(const absl::Status& status) {
    for (const FieldViolation& violation : ViolationsOf(status)) {
      if (absl::IsUnimplemented(status)) {
        Unsupported(violation.field, std::string(absl::StripPrefix(violation.description, kNotSupported)));
      } else {
        Wrong(violation.field, violation.description);
      }
    }
  }

  // Replaces `beginning` by `other` in the field paths of all errors found so far. Call this after a check that names
  // another field than the one that the user has set.
  void Rename(const std::string& beginning, const std::string& other) {
    for (FieldViolation& violation : violations_) {
      if (violation.field.compare(0, beginning.size(), beginning) == 0) {
        violation.field.replace(0, beginning.size(), other);
      }
    }
  }

  size_t num_wrong() const { return violations_.size(); }

  // Returns all errors or, if there are none, all unsupported fields.
  absl::Status ToStatus() const {
    if (!violations_.empty()) {
      return InvalidFields(violations_);
    }
    return unsupported_.empty() ? absl::OkStatus() : UnsupportedFields(unsupported_);
  }

 private:
  std::vector<FieldViolation> violations_;
  std::vector<FieldViolation> unsupported_;
};

inline constexpr double kMaxReal = 1e30;

// The model that a job trains.
struct AdmittedModel {
  graph::Graph graph;
  std::optional<graph::Graph> eval = {};  // The model's evaluation program, if the file has one.
  std::vector<std::string> warnings;      // Settings that may not be what the user meant.
};

// Each function below checks one part of the spec and fills in its defaults. Their parameters:
// * `model`: in AdmitModel, a part of the spec; in the later functions, the result of AdmitModel. The result is null if
//   the model has errors or if only the worker has its file. Checks that depend on the model are then skipped.
//   AdmitData and AdmitSample get null for exported models, too.
// * `sequence_length`: the sequence length of the data; 0 means the longest that the model accepts.
// * `uploaded`: the content of an exported model's file; null if it was not read.
std::optional<AdmittedModel> AdmitModel(v1::ModelSpec* model, int64_t sequence_length,
                                        const graph::ExportedModel* uploaded, Findings& findings);
std::optional<AdmittedModel> AdmitExported(const v1::ExportedModelSpec& exported, int64_t sequence_length,
                                           const graph::ExportedModel* uploaded, Findings& findings);
// Explains why the server has not read the exported model: only the worker has the file, or the model is too large.
std::string WhyUnseen(const v1::ExportedModelSpec& exported);
// Checks an exported model's data: the head can use its labels and, if the model is known, the model accepts its
// samples. If the job predicts, checks only the samples.
void CheckExportedData(const v1::JobSpec& spec, const graph::Graph* model, Findings& findings);
void AdmitData(v1::JobSpec* spec, const graph::Graph* model, Findings& findings);
// Checks one data source. `field` is its path, such as "data.train". `model` is null if the model is exported or has
// errors.
void AdmitSource(const std::string& field, v1::DataSource* source, bool reads_labels, const graph::Graph* model,
                 Findings& findings);
void AdmitCifar(const std::string& field, v1::CifarSource* source, bool reads_labels, const graph::Graph* model,
                Findings& findings);
void AdmitNpz(const std::string& field, v1::NpzSource* source, bool reads_labels, Findings& findings);
void AdmitSafetensors(const std::string& field, v1::SafetensorsSource* source, Findings& findings);
void AdmitPrecision(v1::JobSpec* spec, const AdmittedModel* model, Findings& findings);
void AdmitTraining(v1::JobSpec* spec, const graph::Graph* model, Findings& findings);
// Checks a prediction job, for which AdmitData and AdmitTraining are not called. The job must have weights, a head that
// predicts and data to predict, and no field that only a training job may have. `model` may be exported.
void AdmitPrediction(v1::JobSpec* spec, const AdmittedModel* model, Findings& findings);
void AdmitResources(v1::JobSpec* spec, Findings& findings);
// Checks that the model can run with the size of every training and evaluation batch, and of every micro-batch. Sizes
// that depend on the data's files are not checked. REQUIRES: the data's defaults are filled in.
void CheckBatches(const v1::JobSpec& spec, const AdmittedModel& model, Findings& findings);
// Checks that mean and std map the bytes of images to finite numbers.
void CheckByteMapping(const std::string& field, double mean, double std, Findings& findings);
// Checks the samples that the job is to generate (SampleSpec) and fills in their defaults. REQUIRES: the model's
// defaults are filled in.
void AdmitSample(v1::JobSpec* spec, const graph::Graph* model, Findings& findings);

// Checks a path of the form "<root>/<path>": relative, without "..", empty parts or control characters. The first part
// names a data root.
void AdmitPath(const std::string& field, const std::string& path, Findings& findings);
// Checks the path of a file with labels by the rules of AdmitPath. The path may be empty if the job reads no labels
// from the source.
void AdmitLabelsPath(const std::string& field, const std::string& path, bool reads_labels, Findings& findings);

}  // namespace ampd::server
