#pragma once

#include <cstdint>

// The memory of ampd's own losses over many classes.
namespace ampd::graph {

// The number of rows for which "ampd.cross_entropy" holds the logarithms of all classes' probabilities at once, on a
// CPU. These logarithms fill 4 MiB.
int64_t CrossEntropyRows(int64_t num_classes);

// The number of classes for which "ampd.linear_cross_entropy" computes logits: at least `num_classes`, and such that
// every row of logits in a 16-bit format is aligned to 16 bytes (worker/amp/ops/linear_cross_entropy.h).
int64_t PaddedClasses(int64_t num_classes);

// The sizes of a linear layer with its loss.
struct LossHeadSizes {
  int64_t num_rows = 0;  // The number of samples or, for sequences, of positions in all samples.
  int64_t num_classes = 0;
  int64_t num_features = 0;
  int64_t item_bytes = 0;  // Bytes of a number in the layer's format.
};

// Whether "ampd.linear_cross_entropy" pads the classes. If so, the op saves a padded copy of the weight, and not the
// weight itself.
bool PadsClasses(const LossHeadSizes& sizes);

// Bytes that "ampd.linear_cross_entropy" allocates and saves for its backward pass: the logits, which their gradient
// overwrites later; one fp32 number for each row of logits; and the padded copy of the weight.
int64_t LossHeadSavedBytes(const LossHeadSizes& sizes);

}  // namespace ampd::graph
