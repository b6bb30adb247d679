#include "worker/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "worker/data/philox.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;

// Compares with the known answers for philox4x32 with 10 rounds, from the file kat_vectors of Random123.
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

TEST(Sampler, WhatIsLeftAtTheEnd_IsPaddedFromTheBeginningOfTheSameEpoch) {
  Sampler sampler({.num_samples = 5, .batch_size = 3, .keep_order = true, .last_batch = LastBatch::kPad});
  EXPECT_THAT(sampler.Next(), ElementsAre(0, 1, 2));
  EXPECT_THAT(sampler.Next(), ElementsAre(3, 4, 0));
  EXPECT_EQ(sampler.cursor(), (Sampler::Cursor{0, 5}));
  EXPECT_THAT(sampler.Next(), ElementsAre(0, 1, 2)) << "of the next epoch";
  EXPECT_EQ(sampler.cursor(), (Sampler::Cursor{1, 3}));
}

TEST(Sampler, FewerSamplesThanABatch_ArePaddedOverAndOver) {
  Sampler sampler({.num_samples = 2, .batch_size = 5, .keep_order = true, .last_batch = LastBatch::kPad});
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_THAT(sampler.Next(), ElementsAre(0, 1, 0, 1, 0));
    EXPECT_EQ(sampler.cursor(), (Sampler::Cursor{epoch, 2}));
  }
}

// Checks, for many numbers of samples and batch sizes, that an epoch with LastBatch::kPad takes the samples in the same
// order as an epoch with kDrop, and that its last batch is filled with samples from the beginning of the epoch.
TEST(Sampler, EveryPaddedEpoch_HasEverySampleAndBeginsAsTheOneThatDrops) {
  for (int64_t num_samples = 1; num_samples <= 12; ++num_samples) {
    for (int64_t batch_size = 1; batch_size <= 15; ++batch_size) {
      SCOPED_TRACE(testing::Message() << num_samples << " samples, batches of " << batch_size);
      const Sampler::Options all = {.num_samples = num_samples, .batch_size = num_samples, .seed = 3};
      const Sampler::Options options = {
          .num_samples = num_samples, .batch_size = batch_size, .seed = 3, .last_batch = LastBatch::kPad};
      Sampler permutations(all);
      Sampler sampler(options);
      ASSERT_EQ(options.num_in_batch(), batch_size);
      ASSERT_EQ(options.num_batches(), (num_samples + batch_size - 1) / batch_size);
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        const std::vector<int64_t> permutation = permutations.Next();
        std::vector<int64_t> given;
        for (int64_t batch = 0; batch < options.num_batches(); ++batch) {
          const std::vector<int64_t> indices = sampler.Next();
          ASSERT_EQ(static_cast<int64_t>(indices.size()), batch_size);
          ASSERT_EQ(sampler.cursor().epoch, epoch);
          given.insert(given.end(), indices.begin(), indices.end());
        }
        for (size_t i = 0; i < given.size(); ++i) {
          ASSERT_EQ(given[i], permutation[i % permutation.size()]) << i;
        }
        ASSERT_GE(given.size(), permutation.size());
      }
    }
  }
}

TEST(Sampler, WhereBatchesFillTheEpoch_PaddingChangesNothing) {
  const Sampler::Options drop = {.num_samples = 12, .batch_size = 3, .seed = 7};
  Sampler::Options pad = drop;
  pad.last_batch = LastBatch::kPad;
  EXPECT_EQ(pad.num_batches(), drop.num_batches());
  Sampler padding(pad);
  Sampler dropping(drop);
  for (int step = 0; step < 20; ++step) {
    EXPECT_EQ(padding.cursor(), dropping.cursor());
    EXPECT_EQ(padding.Next(), dropping.Next());
  }
}

TEST(Sampler, ABatchThatDrops_HasNoMoreSamplesThanThereAre) {
  const Sampler::Options few = {.num_samples = 5, .batch_size = 8};
  EXPECT_EQ(few.num_in_batch(), 5);
  EXPECT_EQ(few.num_batches(), 1);
  const Sampler::Options many = {.num_samples = 11, .batch_size = 3};
  EXPECT_EQ(many.num_in_batch(), 3);
  EXPECT_EQ(many.num_batches(), 3);
}

TEST(Sampler, FromAnyCursor_GoesOnAsTheOneThatWasNeverInterrupted) {
  for (const LastBatch last_batch : {LastBatch::kDrop, LastBatch::kPad}) {
    for (const int64_t batch_size : {3, 16}) {
      const Sampler::Options options = {
          .num_samples = 11, .batch_size = batch_size, .seed = 42, .last_batch = last_batch};
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
  }
}

TEST(Sampler, ACursorThatNoRunReaches_IsRefused) {
  for (const LastBatch last_batch : {LastBatch::kDrop, LastBatch::kPad}) {
    Sampler sampler({.num_samples = 11, .batch_size = 3, .last_batch = last_batch});
    EXPECT_FALSE(sampler.Seek({0, 1}));
    EXPECT_FALSE(sampler.Seek({0, 10}));
    EXPECT_FALSE(sampler.Seek({0, 12}));
    EXPECT_FALSE(sampler.Seek({-1, 0}));
    EXPECT_EQ(sampler.Seek({0, 11}), last_batch == LastBatch::kPad) << "behind the padded batch";
    EXPECT_TRUE(sampler.Seek({0, 9}));
  }
}

// The samplers of all ranks. Each sampler returns its own rank's part of a batch.
class Ranks {
 public:
  Ranks(Sampler::Options options, int64_t num_ranks) {
    options.num_ranks = num_ranks;
    for (options.rank = 0; options.rank < num_ranks; ++options.rank) {
      samplers_.emplace_back(options);
    }
  }

  // Returns the parts of the next batch, in the order of ranks.
  std::vector<std::vector<int64_t>> Next() {
    std::vector<std::vector<int64_t>> parts;
    for (Sampler& sampler : samplers_) {
      parts.push_back(sampler.Next());
      EXPECT_EQ(sampler.cursor(), samplers_.front().cursor());
    }
    return parts;
  }

  bool Seek(const Sampler::Cursor& cursor) {
    return std::all_of(samplers_.begin(), samplers_.end(), [&](Sampler& sampler) { return sampler.Seek(cursor); });
  }
  const Sampler::Cursor& cursor() const { return samplers_.front().cursor(); }

 private:
  std::vector<Sampler> samplers_;
};

std::vector<int64_t> Whole(const std::vector<std::vector<int64_t>>& parts) {
  std::vector<int64_t> whole;
  for (const std::vector<int64_t>& part : parts) {
    whole.insert(whole.end(), part.begin(), part.end());
  }
  return whole;
}

TEST(SamplerOfRanks, TheirPartsMakeTheBatchesOfOneRank) {
  for (const LastBatch last_batch : {LastBatch::kDrop, LastBatch::kPad}) {
    for (const int64_t num_samples : {3, 5, 12, 29, 36}) {
      for (const int64_t num_ranks : {1, 2, 3, 4}) {
        SCOPED_TRACE(testing::Message() << num_samples << " samples for " << num_ranks << " ranks"
                                        << (last_batch == LastBatch::kPad ? ", padded" : ""));
        const Sampler::Options options = {
            .num_samples = num_samples, .batch_size = 12, .seed = 42, .last_batch = last_batch};
        Sampler one(options);
        Ranks ranks(options, num_ranks);
        for (int step = 0; step < 10; ++step) {
          const std::vector<std::vector<int64_t>> parts = ranks.Next();
          ASSERT_EQ(Whole(parts), one.Next()) << "step " << step;
          ASSERT_EQ(ranks.cursor(), one.cursor());
          for (const std::vector<int64_t>& part : parts) {
            ASSERT_TRUE(options.num_in_batch() < 12 || part.size() == 12u / parts.size()) << part.size();
          }
        }
      }
    }
  }
}

TEST(SamplerOfRanks, ABatchOfFewSamples_IsCutAsEquallyAsCanBe) {
  Ranks five({.num_samples = 5, .batch_size = 12, .keep_order = true}, 3);
  EXPECT_THAT(five.Next(), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_EQ(five.cursor(), (Sampler::Cursor{0, 5}));
  Ranks three({.num_samples = 3, .batch_size = 12, .keep_order = true}, 4);
  EXPECT_THAT(three.Next(), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre()));
  Ranks padded({.num_samples = 3, .batch_size = 8, .keep_order = true, .last_batch = LastBatch::kPad}, 4);
  EXPECT_THAT(padded.Next(), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 0), ElementsAre(1, 2), ElementsAre(0, 1)));
}

TEST(SamplerOfRanks, ARunGoesOnWithAnotherNumberOfRanks) {
  for (const LastBatch last_batch : {LastBatch::kDrop, LastBatch::kPad}) {
    const Sampler::Options options = {.num_samples = 30, .batch_size = 8, .seed = 7, .last_batch = last_batch};
    Sampler one(options);
    Ranks two(options, 2);
    for (int step = 0; step < 12; ++step) {
      Ranks four(options, 4);
      ASSERT_TRUE(four.Seek(two.cursor())) << "from step " << step;
      Sampler ahead = one;
      for (int i = 0; i < 9; ++i) {
        ASSERT_EQ(Whole(four.Next()), ahead.Next()) << "from step " << step;
      }
      two.Next();
      one.Next();
    }
  }
}

}  // namespace
}  // namespace ampd::data
