#include "worker/train/sample/text_sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/text/utf8.h"
#include "worker/data/philox.h"

namespace ampd::train {
namespace {

// The random stream of text samples. Streams from 2^61 on belong to data/noise.cc, and those from 2^63 on to
// data/augmentation.cc.
constexpr uint64_t kText = uint64_t{1} << 60;

// A random number in [0, 1), from 53 random bits.
double Uniform(uint64_t seed, int64_t step, int64_t place) {
  const uint64_t bits = data::PhiloxBits(seed, kText | static_cast<uint64_t>(step), static_cast<uint64_t>(place));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// The tokens from which one is drawn: all tokens with finite logits, or, if `top_k` is positive, only the `top_k`
// likeliest of them, the likeliest first.
std::vector<int64_t> Candidates(absl::Span<const float> logits, int64_t top_k) {
  std::vector<int64_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto logit = [&](int64_t token) { return logits[static_cast<size_t>(token)]; };
  std::erase_if(tokens, [&](int64_t token) { return !std::isfinite(logit(token)); });
  if (top_k > 0 && top_k < static_cast<int64_t>(tokens.size())) {
    std::stable_sort(tokens.begin(), tokens.end(), [&](int64_t a, int64_t b) { return logit(a) > logit(b); });
    tokens.resize(static_cast<size_t>(top_k));
  }
  return tokens;
}

}  // namespace

int64_t DrawToken(absl::Span<const float> logits, const TokenDraw& draw, double uniform) {
  const std::vector<int64_t> tokens = Candidates(logits, draw.temperature == 0 ? 1 : draw.top_k);
  if (tokens.empty()) {
    return 0;
  }
  const auto logit = [&](int64_t token) { return static_cast<double>(logits[static_cast<size_t>(token)]); };
  double most = logit(tokens.front());
  for (const int64_t token : tokens) {
    most = std::max(most, logit(token));
  }
  std::vector<double> sums;
  double sum = 0;
  for (const int64_t token : tokens) {
    const double below = most - logit(token);
    sum += below == 0 ? 1 : std::exp(-below / draw.temperature);
    sums.push_back(sum);
  }
  const auto drawn = std::upper_bound(sums.begin(), sums.end(), uniform * sum);
  // Rounding may make `uniform * sum` equal to `sum`; no sum is larger then, so draw the last token.
  return drawn == sums.end() ? tokens.back() : tokens[static_cast<size_t>(drawn - sums.begin())];
}

std::string DrawText(const v1::TextSampleSpec& spec, uint64_t seed, int64_t step,
                     absl::FunctionRef<std::vector<float>(std::string_view)> logits_after) {
  const TokenDraw draw{.temperature = spec.temperature(), .top_k = spec.top_k()};
  std::string bytes = spec.prompt();
  for (int64_t place = 0; place < spec.tokens(); ++place) {
    const std::vector<float> logits = logits_after(bytes);
    if (logits.empty()) {
      break;
    }
    bytes.push_back(static_cast<char>(DrawToken(logits, draw, Uniform(seed, step, place))));
  }
  return text::WithReplacements(bytes);
}

}  // namespace ampd::train
