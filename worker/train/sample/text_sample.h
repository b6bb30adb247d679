#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "ampd/v1/job_spec.pb.h"

// Text that a language model goes on with. No LibTorch.
namespace ampd::train {

// How a token is drawn: from the `top_k` likeliest, 0: from all, with probabilities that follow from logits divided by
// the temperature. A temperature of 0 takes the likeliest, of equal ones the first.
struct TokenDraw {
  double temperature = 1;
  int64_t top_k = 0;
};

// The token that the number `uniform`, of [0, 1), draws. A logit that is not finite is as good as none; where none is
// finite it is token 0. REQUIRES: there are logits.
int64_t DrawToken(absl::Span<const float> logits, const TokenDraw& draw, double uniform);

// The prompt and `spec.tokens` bytes drawn after it, one after another, as UTF-8 with U+FFFD in the place of bytes that
// are none. `logits_after` gives the logits of the byte that follows a text; none ends it there. The random numbers
// depend on (seed, step) and the place of the byte alone, and are of a stream that nothing else draws from.
std::string DrawText(const v1::TextSampleSpec& spec, uint64_t seed, int64_t step,
                     absl::FunctionRef<std::vector<float>(std::string_view)> logits_after);

}  // namespace ampd::train
