#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "data/data_file.h"
#include "graph/graph.h"
#include "worker/data/dataset.h"

namespace ampd::train {

// Where on this worker the path in a field of the spec is; DATA_ERROR when it is in no data root.
using Locator = absl::FunctionRef<absl::StatusOr<data::DataFile>(const std::string& field, const std::string& path)>;

// Whether a source is one of OpenArraySource's.
bool IsArraySource(const v1::DataSource& source);

// The dataset of CIFAR's files, of NumPy's arrays or of a safetensors file, with the labels that a model takes; CIFAR's
// are classes. Of a file with named arrays each input of the model but "images" takes the one of its name. `field`: the
// path of `source` in the spec. Errors have the reason DATA_ERROR, or SPEC_ERROR where no file could have what the
// model takes. REQUIRES: IsArraySource(source).
absl::StatusOr<data::Dataset> OpenArraySource(const v1::DataSource& source, const std::string& field,
                                              const graph::Graph& model, Locator locate);

}  // namespace ampd::train
