#include "graph/cost/attention_memory.h"

namespace ampd::graph {
namespace {

constexpr int64_t kFloatBytes = 4;

}  // namespace

int64_t AttentionSavedBytes(const AttentionSizes& sizes) {
  return kFloatBytes * (sizes.query + sizes.key + sizes.value + (sizes.drops ? 3 : 1) * sizes.scores);
}

// Counts the mask that marks scores of minus infinity (one byte per score), the scaled query and key, and the fp32
// copies of 16-bit inputs. Without dropout also counts two softmaxes: the softmax itself, and a copy with zeros in the
// rows whose scores are all minus infinity.
int64_t AttentionForwardBytes(const AttentionSizes& sizes) {
  const int64_t scores = (sizes.drops ? 0 : 2 * kFloatBytes) * sizes.scores + sizes.scores;
  const int64_t scaled = sizes.query + sizes.key;
  const int64_t widened = sizes.is_narrow ? sizes.query + sizes.key + sizes.value : 0;
  return scores + kFloatBytes * (scaled + widened);
}

// Counts the gradients of the softmax's argument and result. With dropout, only one of the two is counted, because the
// other overwrites a saved tensor. For 16-bit inputs also counts the fp32 gradients of the attention's result and of
// the value.
int64_t AttentionBackwardBytes(const AttentionSizes& sizes) {
  const int64_t narrowed = sizes.is_narrow ? sizes.query + sizes.value : 0;
  return kFloatBytes * ((sizes.drops ? 1 : 2) * sizes.scores + narrowed);
}

}  // namespace ampd::graph
