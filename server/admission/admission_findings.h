#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ampd/v1/job_spec.pb.h"
#include "base/error.h"
#include "graph/exported/exported_program.h"
#include "graph/graph.h"

// What the parts of admission share. Only admission*.cc include it.
namespace ampd::server {

// Gathers what is wrong with a spec. Thread-compatible.
class Findings {
 public:
  void Wrong(std::string field, std::string description) {
    violations_.push_back({std::move(field), std::move(description)});
  }
  // Set, but not supported by this server.
  void Unsupported(std::string field, std::string why) { unsupported_.push_back({std::move(field), std::move(why)}); }
  void UnsupportedIf(bool is_set, std::string field, std::string why = "this server does not support it yet") {
    if (is_set) {
      Unsupported(std::move(field), std::move(why));
    }
  }
  void Missing(std::string field) { Wrong(std::move(field), "must be set"); }

  void Range(std::string field, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most) {
      Wrong(std::move(field), absl::StrCat("is ", value, "; must be ", least, " to ", most));
    }
  }
  // Finite, and between the limits, which are left out of what is allowed when `open_*`.
  void Real(std::string field, double value, double least, double most, bool open_least = false,
            bool open_most = false) {
    const bool fits = std::isfinite(value) && (open_least ? value > least : value >= least) &&
                      (open_most ? value < most : value <= most);
    if (!fits) {
      Wrong(std::move(field), absl::StrCat("is ", value, "; must be ", open_least ? "above " : "at least ", least,
                                           open_most ? " and below " : " and at most ", most));
    }
  }

  // What another room found, UNIMPLEMENTED or INVALID_ARGUMENT with the fields.
  void Take(const absl::Status& status) {
    for (const FieldViolation& violation : ViolationsOf(status)) {
      if (absl::IsUnimplemented(status)) {
        Unsupported(violation.field, std::string(absl::StripPrefix(violation.description, kNotSupported)));
      } else {
        Wrong(violation.field, violation.description);
      }
    }
  }

  size_t num_wrong() const { return violations_.size(); }

  // All of what is wrong, else all of what is not supported.
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

// A model as a job trains it.
struct AdmittedModel {
  graph::Graph graph;
  std::optional<graph::Graph> eval = {};  // its evaluation program, where the file has it
  std::vector<std::string> warnings;      // of what may not be meant
};

// Each checks one part of the spec and fills its defaults in. `model` is what AdmitModel returned: null where something
// is wrong with it, or where only the worker has its file, so that what depends on it cannot be known; AdmitData and
// AdmitSample take that of the zoo alone, CheckExportedData the other.
// `sequence_length`: of the data; 0: the longest. `uploaded`: what is in the file of an exported model; null: not
// known.
std::optional<AdmittedModel> AdmitModel(v1::ModelSpec* model, int64_t sequence_length,
                                        const graph::ExportedModel* uploaded, Findings& findings);
std::optional<AdmittedModel> AdmitExported(const v1::ExportedModelSpec& exported, int64_t sequence_length,
                                           const graph::ExportedModel* uploaded, Findings& findings);
// Why nothing is known of an exported model that was not read.
std::string WhyUnseen(const v1::ExportedModelSpec& exported);
// Whether the data has labels that the head may take, and samples that the model takes where it is known.
void CheckExportedData(const v1::JobSpec& spec, const graph::Graph* model, Findings& findings);
void AdmitData(v1::JobSpec* spec, const graph::Graph* model, Findings& findings);
void AdmitCifar(const std::string& field, v1::CifarSource* source, const graph::Graph* model, Findings& findings);
void AdmitNpz(const std::string& field, v1::NpzSource* source, const v1::ModelSpec& spec, Findings& findings);
void AdmitSafetensors(const std::string& field, v1::SafetensorsSource* source, Findings& findings);
void AdmitPrecision(v1::JobSpec* spec, const AdmittedModel* model, Findings& findings);
void AdmitTraining(v1::JobSpec* spec, const graph::Graph* model, Findings& findings);
void AdmitResources(v1::JobSpec* spec, Findings& findings);
// Whether the model can run on batches of the sizes that the spec comes to, as far as they are known without the data's
// files. REQUIRES: the data's defaults are filled in.
void CheckBatches(const v1::JobSpec& spec, const AdmittedModel& model, Findings& findings);
// Whether mean and std map the bytes of images to finite numbers.
void CheckByteMapping(const std::string& field, double mean, double std, Findings& findings);
// REQUIRES: the model's defaults are filled in.
void AdmitSample(v1::JobSpec* spec, const graph::Graph* model, Findings& findings);

// "<root>/<path>": relative, without "..", empty parts or control characters, the first part naming a data root.
void AdmitPath(const std::string& field, const std::string& path, Findings& findings);
// The same of a file with labels, which may be left out for a model that does not read them.
void AdmitLabelsPath(const std::string& field, const std::string& path, const v1::ModelSpec& spec, Findings& findings);

}  // namespace ampd::server
