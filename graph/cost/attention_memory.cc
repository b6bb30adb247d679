#include "graph/cost/attention_memory.h"

namespace ampd::graph {
namespace {

constexpr int64_t kFloatBytes = 4;

}  // namespace

int64_t AttentionSavedBytes(const AttentionSizes& sizes) {
  return kFloatBytes * (sizes.query + sizes.key + sizes.value + (sizes.drops ? 3 : 1) * sizes.scores);
}

// Counts, besides one byte per score that marks minus infinity: the scaled query and key; the fp32 copies of 16-bit
// inputs; and without dropout two softmaxes, of which one has zeros in the rows that are all minus infinity.
int64_t AttentionForwardBytes(const AttentionSizes& sizes) {
  const int64_t scores = (sizes.drops ? 0 : 2 * kFloatBytes) * sizes.scores + sizes.scores;
  const int64_t scaled = sizes.query + sizes.key;
  const int64_t widened = sizes.is_narrow ? sizes.query + sizes.key + sizes.value : 0;
  return scores + kFloatBytes * (scaled + widened);
}

// Counts the gradients before and after the softmax (with dropout, the first takes the memory of a saved tensor). For
// 16-bit inputs also counts the fp32 gradients of the result and of the value.
int64_t AttentionBackwardBytes(const AttentionSizes& sizes) {
  const int64_t narrowed = sizes.is_narrow ? sizes.query + sizes.value : 0;
  return kFloatBytes * ((sizes.drops ? 1 : 2) * sizes.scores + narrowed);
}

}  // namespace ampd::graph
