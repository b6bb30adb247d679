#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ampd/internal/trainer.pb.h"
#include "ampd/v1/job_spec.pb.h"
#include "data/data_file.h"
#include "graph/graph.h"
#include "worker/data/dataset.h"

// Opens the data that a spec names. Errors have the reason DATA_ERROR, or SPEC_ERROR if the spec itself is wrong.
namespace ampd::train {

// What an attempt does with a data source.
enum class DataUse { kTraining, kEvaluation, kPrediction };

// The source's path in the spec: "data.train".
std::string FieldOf(DataUse use);

// Finds the file that the spec's field `field` names; `path` is "<data root's name>/<path below the root>". A user may
// submit any path, so the file is opened only if all users, or the worker's data group, may read it.
absl::StatusOr<data::DataFile> LocateFile(const internal::StartAttempt& start, const std::string& field,
                                          const std::string& path);

// Reads a data source with the labels that the model takes; without labels for kPrediction, even if there are some.
absl::StatusOr<data::Dataset> OpenData(const internal::StartAttempt& start, const v1::DataSource& source,
                                       const graph::Graph& model, DataUse use);

}  // namespace ampd::train
