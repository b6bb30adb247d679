#include "worker/train/sample/text_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "worker/data/philox.h"

namespace ampd::train {
namespace {

using ::testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(DrawToken, EveryTokenHasItsShareOfTheNumbers) {
  const std::vector<float> logits = {0, 2, -1, 2, 1};
  for (const double temperature : {0.5, 1.0, 3.0}) {
    double sum = 0;
    for (const float logit : logits) {
      sum += std::exp(logit / temperature);
    }
    constexpr int kNumbers = 100'000;
    std::map<int64_t, double> shares;
    for (int i = 0; i < kNumbers; ++i) {
      shares[DrawToken(logits, {.temperature = temperature}, (i + 0.5) / kNumbers)] += 1.0 / kNumbers;
    }
    for (size_t token = 0; token < logits.size(); ++token) {
      EXPECT_NEAR(shares[static_cast<int64_t>(token)], std::exp(logits[token] / temperature) / sum, 1e-4) << token;
    }
  }
}

TEST(DrawToken, TopK_LeavesTheLikeliest) {
  const std::vector<float> logits = {0, 2, -1, 2, 1};
  const auto drawn = [&](int64_t top_k) {
    std::set<int64_t> tokens;
    for (double uniform = 0; uniform < 1; uniform += 1e-3) {
      tokens.insert(DrawToken(logits, {.temperature = 2, .top_k = top_k}, uniform));
    }
    return tokens;
  };
  EXPECT_THAT(drawn(1), ElementsAre(1)) << "the first of equal ones";
  EXPECT_THAT(drawn(2), ElementsAre(1, 3));
  EXPECT_THAT(drawn(3), ElementsAre(1, 3, 4));
  EXPECT_THAT(drawn(5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(drawn(0), ElementsAre(0, 1, 2, 3, 4));
}

TEST(DrawToken, ATemperatureOfZero_TakesTheLikeliest) {
  for (const double uniform : {0.0, 0.5, 1 - 0x1p-53}) {
    EXPECT_EQ(DrawToken({0, 2, -1, 2, 1}, {.temperature = 0}, uniform), 1);
    EXPECT_EQ(DrawToken({0, 2, -1, 2.5, 1}, {.temperature = 0, .top_k = 4}, uniform), 3);
    EXPECT_EQ(DrawToken({0, 2, -1, 2.5, 1}, {.temperature = 1e-300}, uniform), 3) << "as good as 0";
  }
}

TEST(DrawToken, LogitsThatAreNotFinite_AreNone) {
  for (const double uniform : {0.0, 0.3, 0.6, 1 - 0x1p-53}) {
    EXPECT_EQ(DrawToken({kNan, 1, kInfinity, -kInfinity}, {}, uniform), 1);
    EXPECT_EQ(DrawToken({kNan, 1, 3, kNan}, {.temperature = 0}, uniform), 2);
    EXPECT_EQ(DrawToken({kNan, kNan}, {}, uniform), 0) << "there is nothing to choose from";
    EXPECT_EQ(DrawToken({kNan, kInfinity}, {.top_k = 1}, uniform), 0);
    EXPECT_EQ(DrawToken({-3e38F, 3e38F}, {}, uniform), 1) << "far apart";
  }
}

v1::TextSampleSpec Spec(const std::string& prompt, int tokens) {
  v1::TextSampleSpec spec;
  spec.set_prompt(prompt);
  spec.set_tokens(tokens);
  spec.set_temperature(1);
  return spec;
}

TEST(DrawText, EachByteFollowsFromTheWholeTextBefore) {
  std::vector<std::string> asked;
  const std::string text = DrawText(Spec("ab", 3), 1, 2, [&](std::string_view before) {
    asked.emplace_back(before);
    std::vector<float> logits(256, -kInfinity);
    logits[static_cast<size_t>('c') + before.size() - 2] = 0;
    return logits;
  });
  EXPECT_EQ(text, "abcde");
  EXPECT_THAT(asked, ElementsAre("ab", "abc", "abcd"));
}

TEST(DrawText, DependsOnSeedAndStepAlone) {
  const auto drawn = [](uint64_t seed, int64_t step) {
    return DrawText(Spec("\n", 40), seed, step, [](std::string_view) { return std::vector<float>(128, 0); });
  };
  EXPECT_EQ(drawn(5, 100), drawn(5, 100));
  EXPECT_NE(drawn(5, 100), drawn(5, 101));
  EXPECT_NE(drawn(5, 100), drawn(6, 100));
  EXPECT_EQ(drawn(5, 100).size(), 41u);
  const std::string text = drawn(5, 100);
  EXPECT_GT(std::set<char>(text.begin(), text.end()).size(), 20u) << "a number of its own for every place";
}

// Drawn text must not use the random numbers that the shuffle of an epoch, the augmentation or a generator's noise use.
TEST(DrawText, IsOfAStreamOfItsOwn) {
  constexpr uint64_t kSeed = 5;
  const std::string text = DrawText(Spec("\n", 1), kSeed, 0, [](std::string_view) { return std::vector<float>(128); });
  const auto drawn_by = [&](uint64_t stream) {
    const double uniform = static_cast<double>(data::PhiloxBits(kSeed, stream, 0) >> 11) * 0x1p-53;
    return static_cast<char>(DrawToken(std::vector<float>(128), {}, uniform));
  };
  EXPECT_EQ(text[1], drawn_by(uint64_t{1} << 60));
  for (const uint64_t stream : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 61, uint64_t{1} << 62, uint64_t{1} << 63}) {
    EXPECT_NE(text[1], drawn_by(stream)) << stream;
  }
}

TEST(DrawText, BytesThatAreNoText_AreReplaced) {
  const std::string text = DrawText(Spec("a", 2), 1, 2, [](std::string_view) {
    std::vector<float> logits(256, -kInfinity);
    logits[0xff] = 0;
    return logits;
  });
  EXPECT_EQ(text, "a\xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace ampd::train
