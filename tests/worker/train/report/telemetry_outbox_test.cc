#include "worker/train/report/telemetry_outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"

namespace ampd::train {
namespace {

using ::testing::ElementsAre;

constexpr size_t kAll = size_t{1} << 30;

v1::TelemetryBatch Step(int64_t step) {
  v1::TelemetryBatch record;
  record.mutable_steps()->add_step(step);
  record.mutable_steps()->add_loss(static_cast<float>(step));
  return record;
}

v1::TelemetryBatch Event(const std::string& message) {
  v1::TelemetryBatch record;
  record.add_events()->set_message(message);
  return record;
}

v1::TelemetryBatch Sample(const std::string& content) {
  v1::TelemetryBatch record;
  record.add_samples()->set_content(content);
  return record;
}

class TelemetryOutboxTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/outbox-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  TelemetryOutbox::Options Options(int64_t memory, int64_t spill) const {
    return {.spill_path = folder_ / "telemetry", .max_memory_bytes = memory, .max_spill_bytes = spill};
  }

  std::filesystem::path folder_;
};

TEST_F(TelemetryOutboxTest, EveryRecord_GetsTheNextSequence) {
  TelemetryOutbox outbox(Options(1 << 20, 1 << 20));
  int num_woken = 0;
  outbox.SetListener([&] { ++num_woken; });
  ASSERT_TRUE(outbox.Add(Step(1), absl::ZeroDuration()).ok());
  ASSERT_TRUE(outbox.Add(Event("x"), absl::ZeroDuration()).ok());
  ASSERT_TRUE(outbox.Add(Step(2), absl::ZeroDuration()).ok());
  ASSERT_TRUE(outbox.Add(Sample("y"), absl::ZeroDuration()).ok());
  const auto batch = outbox.Read(0, kAll);
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->samples(0).attempt_sequence(), 4u);
  EXPECT_EQ(batch->samples(0).content(), "y");
  EXPECT_THAT(batch->steps().sequence(), ElementsAre(1, 3));
  EXPECT_THAT(batch->steps().step(), ElementsAre(1, 2));
  EXPECT_EQ(batch->events(0).attempt_sequence(), 2u);
  EXPECT_EQ(num_woken, 4);
}

TEST_F(TelemetryOutboxTest, WhatIsAcknowledged_IsForgotten) {
  TelemetryOutbox outbox(Options(1 << 20, 1 << 20));
  for (int64_t step = 1; step <= 5; ++step) {
    ASSERT_TRUE(outbox.Add(Step(step), absl::ZeroDuration()).ok());
  }
  outbox.Acknowledge(3);
  outbox.Acknowledge(2);
  EXPECT_THAT(outbox.Read(0, kAll)->steps().step(), ElementsAre(4, 5));
  EXPECT_THAT(outbox.Read(4, kAll)->steps().step(), ElementsAre(5));
  EXPECT_FALSE(outbox.AwaitAcknowledged(absl::ZeroDuration()));
  outbox.Acknowledge(99);
  EXPECT_TRUE(outbox.AwaitAcknowledged(absl::ZeroDuration()));
  EXPECT_EQ(outbox.acknowledged(), 5u);
  EXPECT_EQ(outbox.last_sequence(), 5u);
}

TEST_F(TelemetryOutboxTest, Full_RefusesAtTheDeadlineAndTakesAgainAfterAnAcknowledgement) {
  TelemetryOutbox outbox(Options(200, 200));
  int64_t num_taken = 0;
  absl::Status status;
  while ((status = outbox.Add(Step(num_taken + 1), absl::ZeroDuration())).ok()) {
    ++num_taken;
    ASSERT_LT(num_taken, 100);
  }
  ASSERT_GT(num_taken, 0) << "a record is larger than the memory";
  EXPECT_EQ(ReasonOf(status), "TELEMETRY_FULL");
  EXPECT_EQ(outbox.last_sequence(), static_cast<uint64_t>(num_taken));
  std::thread adding([&] { EXPECT_TRUE(outbox.Add(Step(num_taken + 1), absl::InfiniteDuration()).ok()); });
  outbox.Acknowledge(1);
  adding.join();
  EXPECT_EQ(outbox.last_sequence(), static_cast<uint64_t>(num_taken + 1));
}

TEST_F(TelemetryOutboxTest, ASpillFileThatCantBeWritten_IsAnErrorAndNothingIsTaken) {
  TelemetryOutbox outbox({.spill_path = "/dev/full", .max_memory_bytes = 0, .max_spill_bytes = 1 << 20});
  EXPECT_EQ(ReasonOf(outbox.Add(Step(1), absl::ZeroDuration())), "DISK_FULL");
  EXPECT_EQ(outbox.last_sequence(), 0u);
}

// Adds, reads and acknowledges at random, and compares the outbox with a plain list of records. The outbox has little
// memory, so it keeps most records in the file.
TEST_F(TelemetryOutboxTest, RandomUse_GivesWhatAPlainListGives) {
  const uint64_t seed = 77;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  TelemetryOutbox outbox(Options(200, 100'000));
  std::deque<std::string> model;
  uint64_t acknowledged = 0;
  int64_t most_spilled = 0;
  for (int round = 0; round < 5000; ++round) {
    if (random() % 3 != 0) {
      model.push_back(std::string(random() % 60, static_cast<char>('a' + random() % 26)));
      ASSERT_TRUE(outbox.Add(Event(model.back()), absl::ZeroDuration()).ok());
    } else if (!model.empty() && random() % 2 == 0) {
      const uint64_t count = random() % 8 == 0 ? model.size() : random() % (model.size() + 1);
      acknowledged += count;
      model.erase(model.begin(), model.begin() + static_cast<int64_t>(count));
      outbox.Acknowledge(acknowledged);
    } else {
      const uint64_t skip = random() % (model.size() + 1);
      const auto batch = outbox.Read(acknowledged + skip, kAll);
      ASSERT_TRUE(batch.ok()) << batch.status();
      ASSERT_EQ(static_cast<size_t>(batch->events_size()), model.size() - skip);
      for (int i = 0; i < batch->events_size(); ++i) {
        ASSERT_EQ(batch->events(i).message(), model[skip + static_cast<size_t>(i)]);
        ASSERT_EQ(batch->events(i).attempt_sequence(), acknowledged + skip + static_cast<uint64_t>(i) + 1);
      }
    }
    most_spilled = std::max(most_spilled, outbox.spilled_bytes());
  }
  EXPECT_GT(most_spilled, 1000);
}

}  // namespace
}  // namespace ampd::train
