#include "graph/memory/attention_memory.h"

namespace ampd::graph {
namespace {

constexpr int64_t kFloatBytes = 4;

}  // namespace

int64_t AttentionSavedBytes(const AttentionSizes& sizes) {
  return kFloatBytes * (sizes.query + sizes.key + sizes.value + (sizes.drops ? 3 : 1) * sizes.scores);
}

// These are the softmax; one byte per score that marks minus infinity; the softmax with zeros in rows that are all
// minus infinity, which is the one saved; the scaled query and key; the fp32 copies of 16-bit inputs.
int64_t AttentionForwardBytes(const AttentionSizes& sizes) {
  const int64_t scores = (sizes.drops ? 0 : 2 * kFloatBytes) * sizes.scores + sizes.scores;
  const int64_t scaled = sizes.query + sizes.key;
  const int64_t widened = sizes.is_narrow ? sizes.query + sizes.key + sizes.value : 0;
  return scores + kFloatBytes * (scaled + widened);
}

// These are the gradients before and after the softmax, the first of which replaces what dropout saved; for 16-bit
// inputs also the fp32 gradients of the result and of the value.
int64_t AttentionBackwardBytes(const AttentionSizes& sizes) {
  const int64_t narrowed = sizes.is_narrow ? sizes.query + sizes.value : 0;
  return kFloatBytes * ((sizes.drops ? 1 : 2) * sizes.scores + narrowed);
}

}  // namespace ampd::graph
