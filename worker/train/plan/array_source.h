#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "data/data_file.h"
#include "graph/graph.h"
#include "worker/data/dataset.h"
#include "worker/train/plan/labels.h"

namespace ampd::train {

// Finds the file on this worker for `path`, a path that the spec contains. `field`: the spec's field that contains the
// path. DATA_ERROR if the path is not below a data root of the worker.
using Locator = absl::FunctionRef<absl::StatusOr<data::DataFile>(const std::string& field, const std::string& path)>;

// Whether OpenArraySource reads this source.
bool IsArraySource(const v1::DataSource& source);

// Opens a dataset of CIFAR files, NumPy arrays or a safetensors file. `labels`: the labels that the model takes; those
// of CIFAR are always classes. In a file with named arrays, each input of the model except "images" reads the array of
// the same name. `field`: the path of `source` in the spec. Errors have the reason DATA_ERROR, or SPEC_ERROR if the
// model takes something that no file can provide. REQUIRES: IsArraySource(source).
absl::StatusOr<data::Dataset> OpenArraySource(const v1::DataSource& source, const std::string& field,
                                              const graph::Graph& model, const Labels& labels, Locator locate);

}  // namespace ampd::train
