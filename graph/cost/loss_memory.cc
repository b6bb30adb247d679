#include "graph/cost/loss_memory.h"

#include <algorithm>

namespace ampd::graph {

int64_t CrossEntropyRows(int64_t num_classes) {
  constexpr int64_t kBytes = int64_t{4} << 20;
  return std::max<int64_t>(1, kBytes / (std::max<int64_t>(1, num_classes) * static_cast<int64_t>(sizeof(float))));
}

int64_t PaddedClasses(int64_t num_classes) {
  constexpr int64_t kAligned = 8;
  constexpr int64_t kMultiple = 64;  // With this multiple, a row of 16-bit elements has a multiple of 128 bytes.
  return num_classes % kAligned == 0 ? num_classes : (num_classes + kMultiple - 1) / kMultiple * kMultiple;
}

bool PadsClasses(const LossHeadSizes& sizes) { return PaddedClasses(sizes.num_classes) != sizes.num_classes; }

int64_t LossHeadSavedBytes(const LossHeadSizes& sizes) {
  const int64_t padded = PaddedClasses(sizes.num_classes);
  const int64_t copied = PadsClasses(sizes) ? padded * sizes.num_features : 0;
  return (sizes.num_rows * padded + copied) * sizes.item_bytes + sizes.num_rows * static_cast<int64_t>(sizeof(float));
}

}  // namespace ampd::graph
