#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "worker/data/dataset.h"

// What a model takes for labels, and so what a dataset reads.
namespace ampd::train {

struct Labels {
  int64_t num_classes = 0;               // classes are 0 to below it; 0: none are read
  std::optional<data::Targets> targets;  // of arrays, instead of classes
};

// The extents of one sample, of a value (B, ...).
std::vector<int64_t> SampleShapeOf(const graph::Shape& shape);

// By the model's head; of one that makes its own loss by its input "labels": where they are whole numbers, what they
// are in a cross entropy (graph/vocabulary.h), or else any. SPEC_ERROR for such an input of a type that no dataset has.
absl::StatusOr<Labels> LabelsTakenBy(const graph::Graph& model);

// Whether none of the labels counts in a loss that leaves `ignored` out; not where it leaves nothing out.
bool AreAllIgnored(const at::Tensor& labels, std::optional<int64_t> ignored);

// Whether the data's labels are what the model takes, or one of the two has none. SPEC_ERROR naming both otherwise.
absl::Status CheckLabels(const data::Dataset& data, const graph::Graph& model);

}  // namespace ampd::train
