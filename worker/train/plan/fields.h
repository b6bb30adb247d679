#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "worker/data/dataset.h"

// Which fields of a dataset a model takes: those with the names of its inputs. Errors have the reason SPEC_ERROR.
namespace ampd::train {

struct TakenArrays {
  bool images = true;
  std::vector<data::Field> fields;  // in the order of the inputs
};

// Of a file with named arrays: "images", mapped as a source says, and each other one as it is, but for labels and
// noise. Images alone where a model takes nothing else. An error for an input of a type that no array is read as.
absl::StatusOr<TakenArrays> ArraysTakenBy(const graph::Graph& model);

// Of one sample's noise, which the trainer draws; nothing where the model takes none.
std::optional<std::vector<int64_t>> NoiseShapeOf(const graph::Graph& model);

// Whether the data has every input of the model but noise, each in its type and size, and such labels.
absl::Status CheckSamples(const data::Dataset& data, const graph::Graph& model);

}  // namespace ampd::train
