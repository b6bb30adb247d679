#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "worker/data/dataset.h"

// Matches the fields of a dataset to a model's inputs of the same names. Errors have the reason SPEC_ERROR.
namespace ampd::train {

struct TakenArrays {
  bool images = true;
  std::vector<data::Field> fields;  // In the order of the inputs.
};

// The arrays that the model takes from a file with named arrays: "images", to which the source's image options apply,
// and one unchanged array for every other input except labels and noise. If the model takes no other input, returns
// only images. Returns an error if no array can provide an input's dtype.
absl::StatusOr<TakenArrays> ArraysTakenBy(const graph::Graph& model);

// Shape of the noise of one sample, which the trainer draws; nullopt if the model takes none.
std::optional<std::vector<int64_t>> NoiseShapeOf(const graph::Graph& model);

// Checks that the data has every input of the model except noise, with the right dtype and size.
absl::Status CheckInputs(const data::Dataset& data, const graph::Graph& model);

// Makes the checks of CheckInputs, and also checks that the data has the labels that the model takes.
absl::Status CheckSamples(const data::Dataset& data, const graph::Graph& model);

}  // namespace ampd::train
