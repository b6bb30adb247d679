#include "worker/data/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ATen/ops/empty.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;

// Returns a batch that shows the arguments of this call: its labels are `indices`, and its image is `epoch`.
Dataset::Samples Telling(const std::vector<int64_t>& indices, int64_t epoch, const Dataset::Samples& /*reuse*/) {
  Dataset::Samples samples = {at::empty({1}, at::kLong), at::empty({static_cast<int64_t>(indices.size())}, at::kLong)};
  *samples.images.data_ptr<int64_t>() = epoch;
  std::copy(indices.begin(), indices.end(), samples.labels.data_ptr<int64_t>());
  return samples;
}

std::vector<int64_t> IndicesOf(const Batcher::Batch& batch) {
  const int64_t* const labels = batch.samples.labels.const_data_ptr<int64_t>();
  return {labels, labels + batch.samples.labels.numel()};
}

TEST(Batcher, Batches_AreTheSamplersWithTheirPlacesAndEpochs) {
  const Sampler::Options options = {.num_samples = 11, .batch_size = 3, .seed = 42};
  Sampler sampler(options);
  Batcher batcher(options, Telling, {.batches = 3, .threads = 2});
  batcher.Start();
  for (int step = 0; step < 20; ++step) {
    EXPECT_EQ(batcher.cursor(), sampler.cursor());
    const Batcher::Batch batch = batcher.Next();
    EXPECT_EQ(batch.place, sampler.cursor());
    EXPECT_EQ(IndicesOf(batch), sampler.Next());
    EXPECT_EQ(batch.samples.images.item<int64_t>(), sampler.cursor().epoch);
  }
}

TEST(Batcher, APaddedBatch_IsOfTheEpochThatItEnds) {
  Batcher batcher({.num_samples = 5, .batch_size = 3, .keep_order = true, .last_batch = LastBatch::kPad}, Telling,
                  {.batches = 3, .threads = 2});
  batcher.Start();
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    batcher.Next();
    const Batcher::Batch padded = batcher.Next();
    EXPECT_THAT(IndicesOf(padded), ElementsAre(3, 4, 0));
    EXPECT_EQ(padded.samples.images.item<int64_t>(), epoch);
    EXPECT_EQ(padded.place, (Sampler::Cursor{epoch, 3}));
    EXPECT_EQ(batcher.cursor(), (Sampler::Cursor{epoch, 5}));
  }
}

TEST(Batcher, OfARank_GivesItsPartsOfTheBatches) {
  const Sampler::Options whole = {.num_samples = 11, .batch_size = 4, .seed = 42, .last_batch = LastBatch::kPad};
  Sampler sampler(whole);
  Sampler::Options first = whole;
  first.num_ranks = 2;
  Sampler::Options second = first;
  second.rank = 1;
  Batcher batchers[] = {{first, Telling, {.batches = 3, .threads = 2}}, {second, Telling, {.batches = 1}}};
  for (Batcher& batcher : batchers) {
    batcher.Start();
  }
  for (int step = 0; step < 10; ++step) {
    std::vector<int64_t> indices;
    const std::vector<int64_t> expected = sampler.Next();
    for (Batcher& batcher : batchers) {
      const std::vector<int64_t> part = IndicesOf(batcher.Next());
      EXPECT_EQ(part.size(), 2u);
      indices.insert(indices.end(), part.begin(), part.end());
      EXPECT_EQ(batcher.cursor(), sampler.cursor());
    }
    EXPECT_EQ(indices, expected) << "step " << step;
  }
}

TEST(Batcher, FromAnyCursor_GoesOnAsTheOneThatWasNeverInterruptedHoweverFarAheadAndByHowMany) {
  const Sampler::Options options = {.num_samples = 10, .batch_size = 4, .seed = 1, .last_batch = LastBatch::kPad};
  Batcher reference(options, Telling, {.batches = 1});
  reference.Start();
  std::vector<Sampler::Cursor> cursors;
  std::vector<std::vector<int64_t>> batches;
  for (int step = 0; step < 12; ++step) {
    cursors.push_back(reference.cursor());
    batches.push_back(IndicesOf(reference.Next()));
  }
  for (size_t step = 0; step < cursors.size(); ++step) {
    Batcher resumed(options, Telling, {.batches = 1 + 13 * (step % 4), .threads = 1 + step % 3});
    ASSERT_TRUE(resumed.Seek(cursors[step]));
    resumed.Start();
    for (size_t at = step; at < batches.size(); ++at) {
      ASSERT_EQ(IndicesOf(resumed.Next()), batches[at]) << "from step " << step;
    }
  }
}

class AheadTest : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Batcher, AheadTest, testing::Values(1, 2, 5, 16, 39, 64));

TEST_P(AheadTest, BeforeAnythingIsAskedFor_GathersAheadAndNoMoreThanItMay) {
  const size_t most_ahead = GetParam();
  absl::Mutex mutex;
  size_t num_gathered = 0;
  std::atomic<size_t> num_asked = 0;
  std::atomic<bool> too_far = false;
  const auto gather = [&](const std::vector<int64_t>& indices, int64_t epoch, const Dataset::Samples& reuse) {
    const absl::MutexLock lock(&mutex);
    too_far = too_far || ++num_gathered > num_asked + most_ahead;
    return Telling(indices, epoch, reuse);
  };
  Batcher batcher({.num_samples = 100, .batch_size = 1}, gather, {.batches = most_ahead, .threads = 3});
  batcher.Start();
  const auto is_ahead = [&] { return num_gathered > most_ahead / 2; };
  mutex.LockWhen(absl::Condition(&is_ahead));
  mutex.Unlock();
  for (int step = 0; step < 500; ++step) {
    ++num_asked;
    batcher.Next();
  }
  EXPECT_FALSE(too_far);
}

TEST(Batcher, ASeekWhileABatchIsGathered_ForgetsThatBatch) {
  absl::Notification gathering;
  absl::Notification sought;
  const auto gather = [&](const std::vector<int64_t>& indices, int64_t epoch, const Dataset::Samples& reuse) {
    if (!gathering.HasBeenNotified()) {
      gathering.Notify();
      sought.WaitForNotification();
    }
    return Telling(indices, epoch, reuse);
  };
  Batcher batcher({.num_samples = 10, .batch_size = 2, .keep_order = true}, gather, {.batches = 4});
  batcher.Start();
  gathering.WaitForNotification();
  ASSERT_TRUE(batcher.Seek({.epoch = 3, .position = 6}));
  EXPECT_EQ(batcher.cursor(), (Sampler::Cursor{3, 6}));
  sought.Notify();
  EXPECT_THAT(IndicesOf(batcher.Next()), ElementsAre(6, 7));
  EXPECT_THAT(IndicesOf(batcher.Next()), ElementsAre(8, 9));
  EXPECT_EQ(batcher.Next().samples.images.item<int64_t>(), 4);
}

TEST(Batcher, ABatchThatIsGatheredSooner_IsGivenInItsTurn) {
  absl::Notification second_is_gathered;
  const auto gather = [&](const std::vector<int64_t>& indices, int64_t epoch, const Dataset::Samples& reuse) {
    if (indices.front() == 0) {
      second_is_gathered.WaitForNotification();
    } else if (!second_is_gathered.HasBeenNotified()) {
      second_is_gathered.Notify();
    }
    return Telling(indices, epoch, reuse);
  };
  Batcher batcher({.num_samples = 6, .batch_size = 2, .keep_order = true}, gather, {.batches = 2, .threads = 2});
  batcher.Start();
  EXPECT_THAT(IndicesOf(batcher.Next()), ElementsAre(0, 1));
  EXPECT_THAT(IndicesOf(batcher.Next()), ElementsAre(2, 3));
  EXPECT_THAT(IndicesOf(batcher.Next()), ElementsAre(4, 5));
}

TEST(Batcher, ASeekAmongBatchesThatCameTogether_ForgetsTheRest) {
  Batcher batcher({.num_samples = 100, .batch_size = 2, .keep_order = true}, Telling, {.batches = 16, .threads = 2});
  batcher.Start();
  EXPECT_THAT(IndicesOf(batcher.Next()), ElementsAre(0, 1));
  ASSERT_TRUE(batcher.Seek({.epoch = 0, .position = 50}));
  for (int64_t sample = 50; sample < 100; sample += 2) {
    EXPECT_THAT(IndicesOf(batcher.Next()), ElementsAre(sample, sample + 1));
  }
}

TEST(Batcher, SmallBatches_ComeTogether) {
  absl::Mutex mutex;
  std::map<std::thread::id, std::vector<int64_t>> gathered;  // First sample of each batch, by thread.
  const auto gather = [&](const std::vector<int64_t>& indices, int64_t epoch, const Dataset::Samples& reuse) {
    const absl::MutexLock lock(&mutex);
    gathered[std::this_thread::get_id()].push_back(indices.front());
    return Telling(indices, epoch, reuse);
  };
  Batcher batcher({.num_samples = 64, .batch_size = 1, .keep_order = true}, gather, {.batches = 32, .threads = 2});
  batcher.Start();
  for (int64_t sample = 0; sample < 64; ++sample) {
    EXPECT_THAT(IndicesOf(batcher.Next()), ElementsAre(sample));
  }
  const absl::MutexLock lock(&mutex);
  for (const auto& [thread, batches] : gathered) {
    for (size_t i = 0; i + 3 < batches.size(); i += 4) {
      EXPECT_EQ(batches[i] % 4, 0);
      EXPECT_THAT(std::vector(batches.begin() + i + 1, batches.begin() + i + 4),
                  ElementsAre(batches[i] + 1, batches[i] + 2, batches[i] + 3));
    }
  }
}

// Checks that the thread that calls Next() gathers batches itself if the batcher's own threads do not. In this check,
// the batcher's threads wait until the caller has gathered a batch.
void ExpectCallerGathers(const Batcher::Ahead& ahead) {
  absl::Notification caller_gathered;
  const auto gather = [&, caller = std::this_thread::get_id()](const std::vector<int64_t>& indices, int64_t epoch,
                                                               const Dataset::Samples& reuse) {
    if (std::this_thread::get_id() != caller) {
      caller_gathered.WaitForNotification();
    } else if (!caller_gathered.HasBeenNotified()) {
      caller_gathered.Notify();
    }
    return Telling(indices, epoch, reuse);
  };
  Batcher batcher({.num_samples = 100, .batch_size = 1, .keep_order = true}, gather, ahead);
  batcher.Start();
  for (int64_t sample = 0; sample < 100; ++sample) {
    EXPECT_THAT(IndicesOf(batcher.Next()), ElementsAre(sample));
  }
}

TEST(Batcher, WhoAsksForABatch_GathersOneThatNobodyHasTakenOn) {
  ExpectCallerGathers({.batches = 3, .threads = 2});
  ExpectCallerGathers({.batches = 2, .threads = 1});
  ExpectCallerGathers({.batches = 16, .threads = 2});  // With this limit, a thread takes on several batches at once.
}

TEST(Batcher, ASeekBack_GivesTheSameBatchAgain) {
  Batcher batcher({.num_samples = 30, .batch_size = 4, .seed = 3}, Telling, {.batches = 2});
  batcher.Start();
  batcher.Next();
  const Batcher::Batch batch = batcher.Next();
  batcher.Next();
  ASSERT_TRUE(batcher.Seek(batch.place));
  EXPECT_EQ(IndicesOf(batcher.Next()), IndicesOf(batch));
}

TEST(Batcher, ACursorThatNoRunReaches_IsRefusedAndChangesNothing) {
  Batcher batcher({.num_samples = 11, .batch_size = 3, .keep_order = true}, Telling, {.batches = 2});
  batcher.Start();
  batcher.Next();
  EXPECT_FALSE(batcher.Seek({0, 1}));
  EXPECT_FALSE(batcher.Seek({-1, 0}));
  EXPECT_THAT(IndicesOf(batcher.Next()), ElementsAre(3, 4, 5));
}

TEST_P(AheadTest, WhatTheReaderThrows_ReachesWhoeverAsksForItsBatchAndNobodyEarlier) {
  const auto gather = [](const std::vector<int64_t>& indices, int64_t epoch, const Dataset::Samples& reuse) {
    if (indices.front() == 4) {
      throw std::runtime_error("no memory for sample 4");
    }
    return Telling(indices, epoch, reuse);
  };
  Batcher batcher({.num_samples = 10, .batch_size = 2, .keep_order = true}, gather, {.batches = GetParam()});
  batcher.Start();
  EXPECT_THAT(IndicesOf(batcher.Next()), ElementsAre(0, 1));
  EXPECT_THAT(IndicesOf(batcher.Next()), ElementsAre(2, 3));
  EXPECT_THROW(batcher.Next(), std::runtime_error);
  EXPECT_EQ(batcher.cursor(), (Sampler::Cursor{0, 4}));
}

TEST(Batcher, OneThatIsNotStartedOrNotRead_EndsAtOnce) {
  const Batcher idle({.num_samples = 10, .batch_size = 2}, Telling, {.batches = 2});
  Batcher unread({.num_samples = 10, .batch_size = 2}, Telling, {.batches = 2});
  unread.Start();
}

TEST(Batcher, MemoryThatWasGivenBack_HoldsALaterBatch) {
  const auto gather = [](const std::vector<int64_t>& indices, int64_t epoch, Dataset::Samples reuse) {
    Dataset::Samples samples = Telling(indices, epoch, {});
    if (reuse.labels.defined()) {
      reuse.labels.copy_(samples.labels);
      samples.labels = reuse.labels;
    }
    return samples;
  };
  const Sampler::Options options = {.num_samples = 40, .batch_size = 4, .seed = 5};
  Sampler sampler(options);
  Batcher batcher(options, gather, {.batches = 2, .threads = 2});
  batcher.Start();
  std::set<const void*> addresses;
  for (int step = 0; step < 50; ++step) {
    Batcher::Batch batch = batcher.Next();
    EXPECT_EQ(IndicesOf(batch), sampler.Next()) << "step " << step;
    addresses.insert(batch.samples.labels.const_data_ptr());
    batcher.Recycle(std::move(batch.samples));
  }
  // At most six batches exist at a time: one that the test reads, two that wait, and one in each of three threads.
  EXPECT_LE(addresses.size(), 6u);
}

}  // namespace
}  // namespace ampd::data
