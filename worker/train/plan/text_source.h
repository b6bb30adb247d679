#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"
#include "worker/data/dataset.h"
#include "worker/train/plan/array_source.h"
#include "worker/train/plan/labels.h"

namespace ampd::train {

// Whether OpenTextSource reads this source.
bool IsTextSource(const v1::DataSource& source);

// Opens the dataset of a token file or of texts with one class each, and checks it against the model's inputs and
// labels. `labels`: the labels that the model takes; empty for a prediction. `needs_labels`: each text must have its
// class. `field`: the path of `source` in the spec. Errors have the reason DATA_ERROR, or SPEC_ERROR if the pad token
// is outside the model's vocabulary. REQUIRES: IsTextSource(source).
absl::StatusOr<data::Dataset> OpenTextSource(const v1::DataSource& source, const std::string& field,
                                             const graph::Graph& model, const Labels& labels, bool needs_labels,
                                             Locator locate);

}  // namespace ampd::train
