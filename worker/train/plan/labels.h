#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "worker/data/dataset.h"

// The labels that a model takes, and that a dataset therefore reads.
namespace ampd::train {

struct Labels {
  int64_t num_classes = 0;               // Classes are 0 to num_classes - 1; 0: no labels are read.
  std::optional<data::Targets> targets;  // Set if labels are numbers from arrays, not classes.
};

// The shape of one sample, for a value whose shape is (B, ...) with the batch size B.
std::vector<int64_t> SampleShapeOf(const graph::Shape& shape);

// Derives the labels from the model's head. A model with its own loss takes them from its input "labels". Integer
// labels must be in the range of the cross entropy that reads them (graph/vocabulary.h); if no cross entropy reads
// them, they may have any value. SPEC_ERROR if the input "labels" has a type that no dataset provides.
absl::StatusOr<Labels> LabelsTakenBy(const graph::Graph& model);

// Whether all labels equal `ignored`, so that the loss counts none of them. False if `ignored` is not set or the labels
// are not integers.
bool AreAllIgnored(const at::Tensor& labels, std::optional<int64_t> ignored);

// Whether the loss of a batch is NaN because it is a mean over no labels. Without a label count, the loss of each
// micro-batch is computed, so one micro-batch whose labels are all ignored is enough. With a label count
// (graph::kLabelCount), micro-batches without labels do not count towards the loss, so all labels of the batch must be
// ignored. `labels`: those of the batch, whose samples are divided evenly among `num_micro_batches`. `ignored`: as in
// AreAllIgnored.
bool IsMeanOfNoLabels(const at::Tensor& labels, int64_t num_micro_batches, std::optional<int64_t> ignored,
                      bool has_label_count);

// Checks that the data's labels are what the model takes. OK if the model takes no labels or the data has no samples.
absl::Status CheckLabels(const data::Dataset& data, const graph::Graph& model);

}  // namespace ampd::train
