#include "worker/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "worker/data/philox.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;

// Known answers of Random123's kat_vectors for philox4x32 with 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_THAT(Philox({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
}

TEST(Sampler, AnEpoch_GivesEverySampleOnce) {
  Sampler sampler({.num_samples = 12, .batch_size = 3, .seed = 7});
  std::set<int64_t> seen;
  for (int batch = 0; batch < 4; ++batch) {
    for (const int64_t index : sampler.Next()) {
      EXPECT_TRUE(seen.insert(index).second) << index;
    }
  }
  EXPECT_EQ(seen.size(), 12u);
  EXPECT_EQ(*seen.rbegin(), 11);
}

TEST(Sampler, Epochs_AreShuffledDifferently) {
  Sampler sampler({.num_samples = 50, .batch_size = 50, .seed = 7});
  const auto first = sampler.Next();
  EXPECT_NE(first, sampler.Next());
}

TEST(Sampler, ThePartialBatchAtTheEnd_IsDropped) {
  Sampler sampler({.num_samples = 5, .batch_size = 2, .keep_order = true});
  EXPECT_THAT(sampler.Next(), ElementsAre(0, 1));
  EXPECT_THAT(sampler.Next(), ElementsAre(2, 3));
  EXPECT_THAT(sampler.Next(), ElementsAre(0, 1));
  EXPECT_EQ(sampler.cursor(), (Sampler::Cursor{1, 2}));
}

TEST(Sampler, FewerSamplesThanABatch_GivesThemAll) {
  Sampler sampler({.num_samples = 2, .batch_size = 8, .keep_order = true});
  EXPECT_THAT(sampler.Next(), ElementsAre(0, 1));
}

TEST(Sampler, FromAnyCursor_GoesOnAsTheOneThatWasNeverInterrupted) {
  const Sampler::Options options = {.num_samples = 11, .batch_size = 3, .seed = 42};
  Sampler reference(options);
  for (int step = 0; step < 20; ++step) {
    Sampler resumed(options);
    ASSERT_TRUE(resumed.Seek(reference.cursor()));
    Sampler ahead = reference;
    for (int i = 0; i < 7; ++i) {
      ASSERT_EQ(resumed.Next(), ahead.Next()) << "from step " << step;
    }
    reference.Next();
  }
}

TEST(Sampler, ACursorThatNoRunReaches_IsRefused) {
  Sampler sampler({.num_samples = 11, .batch_size = 3});
  EXPECT_FALSE(sampler.Seek({0, 1}));
  EXPECT_FALSE(sampler.Seek({0, 12}));
  EXPECT_FALSE(sampler.Seek({-1, 0}));
}

}  // namespace
}  // namespace ampd::data
