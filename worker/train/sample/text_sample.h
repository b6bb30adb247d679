#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "ampd/v1/job_spec.pb.h"

// Draws the text with which a language model continues a prompt. Does not use LibTorch.
namespace ampd::train {

// How to draw a token: from the `top_k` likeliest tokens (0: from all), with the probabilities that the softmax of
// logits / temperature gives. A temperature of 0 selects the likeliest token, and the first one among equals.
struct TokenDraw {
  double temperature = 1;
  int64_t top_k = 0;
};

// Returns the token that `uniform`, in [0, 1), selects. Tokens whose logit is not finite are never drawn; if no logit
// is finite, returns 0. REQUIRES: there are logits.
int64_t DrawToken(absl::Span<const float> logits, const TokenDraw& draw, double uniform);

// Returns the prompt and `spec.tokens` bytes drawn after it one by one, as UTF-8 with U+FFFD in place of invalid bytes.
// `logits_after` returns the logits of the byte that follows a text; if it returns none, the text ends. The random
// numbers depend on (seed, step) and the byte's position alone, and come from a stream that nothing else uses.
std::string DrawText(const v1::TextSampleSpec& spec, uint64_t seed, int64_t step,
                     absl::FunctionRef<std::vector<float>(std::string_view)> logits_after);

}  // namespace ampd::train
