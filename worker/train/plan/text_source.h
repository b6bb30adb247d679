#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"
#include "worker/data/dataset.h"
#include "worker/train/plan/array_source.h"

namespace ampd::train {

// Whether a source is one of OpenTextSource's.
bool IsTextSource(const v1::DataSource& source);

// The dataset of a token file or of texts with a class each, checked against what `model` takes and tells apart.
// `field`: the path of `source` in the spec. Errors have the reason DATA_ERROR, or SPEC_ERROR where the pad token is
// none of the model's. REQUIRES: IsTextSource(source).
absl::StatusOr<data::Dataset> OpenTextSource(const v1::DataSource& source, const std::string& field,
                                             const graph::Graph& model, Locator locate);

}  // namespace ampd::train
