#include "worker/train/plan/data_source.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/train/plan/array_source.h"
#include "worker/train/plan/labels.h"
#include "worker/train/plan/spec_error.h"
#include "worker/train/plan/text_source.h"

namespace ampd::train {
namespace {

absl::StatusOr<data::Dataset> OpenIdx(const internal::StartAttempt& start, const v1::IdxSource& idx,
                                      const std::string& field, int64_t num_classes) {
  data::Dataset::Idx source;
  source.mean = idx.mean();
  source.deviation = idx.has_std() ? idx.std() : 1;
  source.limit = idx.limit();
  source.num_classes = num_classes;
  AMPD_ASSIGN_OR_RETURN(source.images, LocateFile(start, field + ".images", idx.images()));
  if (num_classes > 0) {
    AMPD_ASSIGN_OR_RETURN(source.labels, LocateFile(start, field + ".labels", idx.labels()));
  }
  return data::Dataset::ReadIdx(source);
}

}  // namespace

std::string FieldOf(DataUse use) {
  return use == DataUse::kTraining ? "data.train" : use == DataUse::kEvaluation ? "data.eval" : "data.predict";
}

absl::StatusOr<data::DataFile> LocateFile(const internal::StartAttempt& start, const std::string& field,
                                          const std::string& path) {
  const std::string name = absl::StrCat(field, " \"", path, "\"");
  const size_t slash = path.find('/');
  const auto root = start.data_roots().find(path.substr(0, slash));
  if (slash == std::string::npos || root == start.data_roots().end()) {
    return data::DataError(name, "it does not begin with the name of a data root of this worker");
  }
  data::DataFile file{root->second, path.substr(slash + 1), name};
  file.rights.shared_only = true;
  if (start.has_data_group()) {
    file.rights.group = start.data_group();
  }
  return file;
}

absl::StatusOr<data::Dataset> OpenData(const internal::StartAttempt& start, const v1::DataSource& source,
                                       const graph::Graph& model, DataUse use) {
  const auto locate = [&start](const std::string& field, const std::string& path) {
    return LocateFile(start, field, path);
  };
  const std::string field = FieldOf(use);
  Labels labels;  // Stays empty for a prediction, which reads no labels.
  if (use != DataUse::kPrediction) {
    AMPD_ASSIGN_OR_RETURN(labels, LabelsTakenBy(model));
  }
  if (IsTextSource(source)) {
    return OpenTextSource(source, field, model, labels, /*needs_labels=*/use != DataUse::kPrediction, locate);
  }
  if (source.has_idx()) {
    return OpenIdx(start, source.idx(), field + ".idx", labels.num_classes);
  }
  if (IsArraySource(source)) {
    return OpenArraySource(source, field, model, labels, locate);
  }
  if (!source.has_synthetic()) {
    return SpecError("a data source names no kind");
  }
  const v1::SyntheticSource& synthetic = source.synthetic();
  if (labels.num_classes > 0 && synthetic.num_classes() > labels.num_classes) {
    return SpecError(
        absl::StrCat("the data has ", synthetic.num_classes(), " classes and the model ", labels.num_classes));
  }
  return data::Dataset::MakeSynthetic({.shape = {synthetic.shape().begin(), synthetic.shape().end()},
                                       .num_classes = synthetic.num_classes(),
                                       .num_samples = synthetic.num_samples(),
                                       .seed = synthetic.seed(),
                                       .noise = synthetic.has_noise() ? synthetic.noise() : 1,
                                       .evaluation = use != DataUse::kTraining});
}

}  // namespace ampd::train
