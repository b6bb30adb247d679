#include "server/telemetry/metric_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "base/random.h"
#include "points/telemetry_batch.h"
#include "server/telemetry/metric_chunk.h"
#include "tests/base/faulty_vfs.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

class MetricStoreTest : public testing::Test {
 protected:
  std::string AllPoints(int page = 1 << 20) {
    auto read = store_->Read([&](MetricReader& reader) { return reader.ReadPoints("j", 0, 0, page); });
    return read.ok() ? Show(read->segments) : read.status().ToString();
  }
  std::string AllEvents() {
    auto read = store_->Read([&](MetricReader& reader) { return reader.ReadEvents("j", 0, 1000); });
    std::string shown;
    for (const v1::Event& event : read->events) {
      shown += std::to_string(event.sequence()) + ":" + v1::Event::Kind_Name(event.kind()) + " ";
    }
    return shown;
  }
  LogPage Log(int64_t offset, int64_t max_bytes = 1 << 20) {
    return *store_->Read([&](MetricReader& reader) { return reader.ReadLog("j", 1, offset, max_bytes); });
  }

  StoreOnDisk store_;
};

TEST_F(MetricStoreTest, KeepsWhatWasAnsweredOverARestart) {
  v1::TelemetryBatch batch = Steps(1, 3);
  AddEval(4, 3, &batch);
  AddEvent(5, v1::Event::OVERFLOW, &batch);
  EXPECT_EQ(*store_.Append(1, batch), 5u);
  EXPECT_EQ(*store_.AppendLog(0, "hello"), 5);
  store_.Reopen();
  EXPECT_EQ(AllPoints(), "a1[1-3,e4]");
  EXPECT_EQ(AllEvents(), "1:OVERFLOW ");
  EXPECT_EQ(Log(0).content, "hello");
  EXPECT_EQ(*store_.Append(1, Steps(6, 6)), 6u);
}

TEST_F(MetricStoreTest, KeepsEveryColumn) {
  const v1::TelemetryBatch batch = Steps(1, 20, 100);
  ASSERT_TRUE(store_.Append(1, batch).ok());
  auto page = store_->Read([&](MetricReader& reader) { return reader.ReadPoints("j", 0, 0, 100); });
  EXPECT_EQ(page->segments[0].batch.steps().SerializeAsString(), batch.steps().SerializeAsString());
}

// The second of three batches has a column of a newer version of ampd. The column must stay with the rows to which it
// belongs.
TEST_F(MetricStoreTest, KeepsColumnsThatItDoesNotKnow) {
  v1::TelemetryBatch newer = Steps(3, 4);
  newer.mutable_steps()->GetReflection()->MutableUnknownFields(newer.mutable_steps())->AddLengthDelimited(1000, "xy");
  ASSERT_TRUE(store_.Append(1, Steps(1, 2)).ok());
  ASSERT_TRUE(store_.Append(1, newer).ok());
  ASSERT_TRUE(store_.Append(1, Steps(5, 6)).ok());
  EXPECT_EQ(AllPoints(), "a1[1-6]");
  auto database = SqliteDatabase::Open(store_.path(), false);
  auto chunks = database->Prepare("SELECT content FROM chunks ORDER BY last_sequence");
  std::vector<std::string> columns;
  while (*chunks->Step()) {
    const v1::StepColumns steps = DecodePoints(chunks->Bytes(0))->steps();
    columns.push_back(absl::StrCat(steps.step(0), "-", *steps.step().rbegin(),
                                   steps.GetReflection()->GetUnknownFields(steps).empty() ? "" : "+"));
  }
  EXPECT_EQ(columns, (std::vector<std::string>{"1-2", "3-4+", "5-6"}));
}

TEST_F(MetricStoreTest, CutsEventsThatAreLargerThanAnAnswerMayBeAndEndsPagesByBytes) {
  v1::TelemetryBatch batch;
  for (uint64_t sequence = 1; sequence <= 8; ++sequence) {
    AddEvent(sequence, v1::Event::GRADIENTS_SAMPLED, &batch);
    v1::Event& event = *batch.mutable_events()->rbegin();
    event.set_message(std::string(1 << 20, 'm'));
    (*event.mutable_attributes())["long"] = std::string(1 << 16, 'v');
    for (int i = 0; i < 100; ++i) {
      (*event.mutable_attributes())[absl::StrCat("key", i)] = "value";
    }
    for (int module = 0; module < 3000; ++module) {
      event.mutable_gradients()->add_modules()->set_module(std::string(600, 'x'));
    }
    ASSERT_EQ(*store_.Append(1, batch), sequence);
    batch.Clear();
  }
  std::vector<v1::Event> events;
  for (bool more = true; more;) {
    const auto page = store_->Read([&](MetricReader& reader) {
      return reader.ReadEvents("j", events.empty() ? 0 : events.back().sequence(), 1000);
    });
    ASSERT_TRUE(page.ok());
    size_t num_bytes = 0;
    for (const v1::Event& event : page->events) {
      num_bytes += event.ByteSizeLong();
      events.push_back(event);
    }
    EXPECT_LE(num_bytes, 4u << 20);
    EXPECT_FALSE(page->events.empty());
    more = page->more;
  }
  ASSERT_EQ(events.size(), 8u);
  EXPECT_LE(events[0].ByteSizeLong(), 2u << 20);
  EXPECT_LE(events[0].attributes().size(), 32u);
  EXPECT_GT(events[0].gradients().modules_size(), 1000);
  EXPECT_NE(events[0].message().find("of 3000 modules are kept)"), std::string::npos);
  EXPECT_EQ(*store_->Read([](MetricReader& reader) { return reader.CountEvents("j"); }), 8);
}

TEST_F(MetricStoreTest, RefusesABatchOfMorePointsThanAWatchersMessageMayHave) {
  EXPECT_TRUE(store_.Append(1, Steps(1, 1024)).ok());
  EXPECT_EQ(store_.Append(1, Steps(1025, 40'000)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(MetricStoreTest, StoresTelemetryThatIsSentAgainOnce) {
  v1::TelemetryBatch batch = Steps(1, 3);
  AddEvent(4, v1::Event::OVERFLOW, &batch);
  EXPECT_EQ(*store_.Append(1, batch), 4u);
  EXPECT_EQ(*store_.Append(1, batch), 4u);
  v1::TelemetryBatch overlapping = Steps(2, 3);
  AddEvent(4, v1::Event::OVERFLOW, &overlapping);
  AddStep(5, 4, &overlapping);
  EXPECT_EQ(*store_.Append(1, overlapping), 5u);
  EXPECT_EQ(AllPoints(), "a1[1-3,5]");
  EXPECT_EQ(AllEvents(), "1:OVERFLOW ");
}

TEST_F(MetricStoreTest, StoresNothingBeyondAGap) {
  v1::TelemetryBatch batch = Steps(1, 2);
  AddStep(4, 4, &batch);
  EXPECT_EQ(*store_.Append(1, batch), 2u);
  EXPECT_EQ(*store_.Append(1, Steps(5, 9)), 2u);
  EXPECT_EQ(AllPoints(), "a1[1-2]");
  EXPECT_EQ(*store_.Append(1, Steps(3, 5)), 5u);
  EXPECT_EQ(AllPoints(), "a1[1-5]");
}

TEST_F(MetricStoreTest, TellsOnlyWhatIsNew) {
  std::vector<StoredHistory> told;
  store_.on_stored = [&](const StoredHistory& stored) { told.push_back(stored); };
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  ASSERT_TRUE(store_.Append(1, Steps(2, 5)).ok());
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1].items[0].steps->sequence(0), 4u);
  EXPECT_EQ(points::NumSteps(*told[1].items[0].steps), 2);
}

TEST_F(MetricStoreTest, ManySmallAppendsBecomeFewChunksAndReadBackInPages) {
  for (uint64_t sequence = 1; sequence <= 3000; ++sequence) {
    ASSERT_TRUE(store_->AppendTelemetry({"j", 1, 0, Steps(sequence, sequence)}, [](auto) {}).ok());
  }
  store_->Flush();
  EXPECT_EQ(AllPoints(), "a1[1-3000]");
  auto page = store_->Read([&](MetricReader& reader) { return reader.ReadPoints("j", 1, 1500, 700); });
  EXPECT_EQ(Show(page->segments), "a1[1501-2200]");
  EXPECT_TRUE(page->more);
  page = store_->Read([&](MetricReader& reader) { return reader.ReadPoints("j", 1, 2300, 700); });
  EXPECT_EQ(Show(page->segments), "a1[2301-3000]");
  EXPECT_FALSE(page->more);
}

TEST_F(MetricStoreTest, MarksPointsBeyondALaterAttemptsCheckpointAsSuperseded) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 10)).ok());
  ASSERT_TRUE(store_.Append(2, Steps(1, 3, 6), /*from_step=*/6).ok());
  EXPECT_EQ(AllPoints(), "a1[1-6] a1![7-10] a2[1-3]");
  ASSERT_TRUE(store_.Append(3, Steps(1, 1, 8), /*from_step=*/8).ok());
  EXPECT_EQ(AllPoints(), "a1[1-6] a1![7-10] a2[1-2] a2![3] a3[1]");
}

TEST_F(MetricStoreTest, ALogThatComesBeforeTheFirstPointDoesNotSupersede) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 10)).ok());
  absl::Notification done;
  v1::LogChunk chunk;
  chunk.set_content("starting");
  ASSERT_TRUE(store_->AppendLog("j", 2, chunk, [&](auto) { done.Notify(); }).ok());
  done.WaitForNotification();
  EXPECT_EQ(AllPoints(), "a1[1-10]");
  ASSERT_TRUE(store_.Append(2, Steps(1, 1, 8), /*from_step=*/8).ok());
  EXPECT_EQ(AllPoints(), "a1[1-8] a1![9-10] a2[1]");
}

TEST_F(MetricStoreTest, AnEventThatTheAttemptRolledBack_MarksThePointsBeyondIt) {
  v1::TelemetryBatch batch = Steps(1, 10);
  AddEvent(11, v1::Event::ROLLED_BACK, &batch);
  batch.mutable_events(0)->set_step(4);
  ASSERT_TRUE(store_.Append(1, batch).ok());
  ASSERT_TRUE(store_.Append(1, Steps(12, 13, -7)).ok());
  EXPECT_EQ(AllPoints(), "a1[1-4] a1![5-10] a1[12-13]");
  EXPECT_EQ(AllEvents(), "1:ROLLED_BACK ");
}

TEST_F(MetricStoreTest, DownsamplesToTheLastOfEachShareOfTheSteps) {
  v1::TelemetryBatch batch = Steps(1, 100);
  AddEval(101, 50, &batch);
  AddEval(102, 100, &batch);
  ASSERT_TRUE(store_.Append(1, batch).ok());
  auto page = store_->Read([](MetricReader& reader) { return reader.Downsample("j", 4, false); });
  EXPECT_EQ(Show(page->segments), "a1[25,50,75,100,e101,e102]");
}

TEST_F(MetricStoreTest, DownsamplingLeavesSupersededPointsOut) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 10)).ok());
  ASSERT_TRUE(store_.Append(2, Steps(1, 4, 4), /*from_step=*/4).ok());
  auto page = store_->Read([](MetricReader& reader) { return reader.Downsample("j", 5, false); });
  EXPECT_EQ(Show(page->segments), "a1[2,4] a2[2,4]");
  page = store_->Read([](MetricReader& reader) { return reader.Downsample("j", 5, true); });
  EXPECT_EQ(Show(page->segments), "a1[2,4] a2[2,4] a1![10]");
}

TEST_F(MetricStoreTest, NumbersServerAndTrainerEventsInOneHistory) {
  v1::TelemetryBatch batch;
  AddEvent(1, v1::Event::OVERFLOW, &batch);
  ASSERT_TRUE(store_.AppendEvents({ServerEvent(1, v1::Event::CREATED)}).ok());
  ASSERT_TRUE(store_.Append(1, batch).ok());
  ASSERT_TRUE(store_.AppendEvents({ServerEvent(1, v1::Event::CREATED), ServerEvent(2, v1::Event::STATE_CHANGED)}).ok());
  EXPECT_EQ(AllEvents(), "1:CREATED 2:OVERFLOW 3:STATE_CHANGED ");
}

TEST_F(MetricStoreTest, KeepsTheNewestOfALongLogAndCountsTheRest) {
  store_.max_log_bytes = 100'000;
  store_.Reopen();
  const std::string text(40'000, 'x');
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(*store_.AppendLog(int64_t{40'000} * i, text), int64_t{40'000} * (i + 1));
  }
  const LogPage page = Log(0);
  EXPECT_EQ(page.dropped_bytes, 120'000);
  EXPECT_EQ(page.offset_bytes, 120'000);
  EXPECT_EQ(page.content.size(), 80'000u);
  EXPECT_EQ(page.end_bytes, 200'000);
}

TEST_F(MetricStoreTest, StoresLogTextOnceAndRefusesGaps) {
  EXPECT_EQ(*store_.AppendLog(0, "abc"), 3);
  EXPECT_EQ(*store_.AppendLog(0, "abc"), 3);
  EXPECT_EQ(*store_.AppendLog(1, "bcdef"), 6);
  EXPECT_EQ(*store_.AppendLog(8, "x"), 6) << "a gap";
  EXPECT_EQ(*store_.AppendLog(8, "x", /*dropped=*/2), 9) << "an accounted gap";
  EXPECT_EQ(Log(2, 3).content, "cde");
  EXPECT_EQ(Log(6).content, "x");
  EXPECT_EQ(Log(6).dropped_bytes, 2);
}

// Appends chunks of a log that are repeated, overlap or leave gaps. Some gaps are reported as dropped text. The value
// of every byte depends on its position, so the test can recognize it.
TEST_F(MetricStoreTest, AnyChunksOfALog_LeaveTheBytesOfItsPlaces) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  SeededRandom random(kSeed);
  const auto byte_at = [](int64_t place) { return static_cast<char>('a' + (place * 7 + place / 26) % 26); };
  std::vector<bool> kept;  // Whether the byte at each position must be stored.
  int num_overlaps = 0, num_gaps = 0, num_accounted = 0;
  for (int i = 0; i < 400; ++i) {
    const int64_t end = static_cast<int64_t>(kept.size());
    const int64_t offset = std::max<int64_t>(0, end - 12 + static_cast<int64_t>(random.Next() % 18));
    const int64_t dropped = std::min<int64_t>(offset, static_cast<int64_t>(random.Next() % 4));
    std::string text(random.Next() % 24, ' ');
    for (size_t n = 0; n < text.size(); ++n) {
      text[n] = byte_at(offset + static_cast<int64_t>(n));
    }
    const int64_t text_end = offset + static_cast<int64_t>(text.size());
    if (text_end > end && offset - dropped <= end) {
      num_overlaps += offset < end ? 1 : 0;
      num_accounted += offset > end ? 1 : 0;
      kept.resize(static_cast<size_t>(std::max(offset, end)), false);
      kept.resize(static_cast<size_t>(text_end), true);
    } else {
      num_gaps += text_end > end ? 1 : 0;
    }
    ASSERT_EQ(*store_.AppendLog(offset, text, dropped), static_cast<int64_t>(kept.size())) << "chunk " << i;
    if (i % 50 == 49) {
      store_.Reopen();
    }
  }
  EXPECT_GT(std::min({num_overlaps, num_gaps, num_accounted}), 20) << "the chunks were all of one kind";
  std::vector<bool> read(kept.size(), false);
  for (int64_t place = 0; place < static_cast<int64_t>(kept.size());) {
    const LogPage page = Log(place, 1 + static_cast<int64_t>(random.Next() % 40));
    if (page.content.empty()) {
      break;  // No text follows, because the rest was dropped.
    }
    EXPECT_EQ(page.offset_bytes, place + page.dropped_bytes);
    for (place = page.offset_bytes; place < page.offset_bytes + static_cast<int64_t>(page.content.size()); ++place) {
      EXPECT_EQ(page.content[place - page.offset_bytes], byte_at(place)) << place;
      read[place] = true;
    }
  }
  EXPECT_EQ(read, kept);
}

// Appends batches that repeat steps, overlap, leave out steps or skip ahead. The store must keep the steps from 1 on,
// without a gap.
TEST_F(MetricStoreTest, AnyBatches_LeaveTheRunWithoutAGap) {
  constexpr uint64_t kSeed = 12;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  SeededRandom random(kSeed);
  uint64_t stored = 0;
  int num_ahead = 0, num_torn = 0, num_again = 0;
  for (int i = 0; i < 300; ++i) {
    const uint64_t first = std::max<int64_t>(1, static_cast<int64_t>(stored + random.Next() % 12) - 8);
    const uint64_t last = first + random.Next() % 20;
    const uint64_t left_out = random.Next() % 2 == 0 ? first + random.Next() % 10 : 0;
    v1::TelemetryBatch batch;
    for (uint64_t sequence = first; sequence <= last; ++sequence) {
      if (sequence != left_out) {
        AddStep(sequence, static_cast<int64_t>(sequence), &batch);
      }
    }
    num_ahead += first > stored + 1 ? 1 : 0;
    num_again += first <= stored ? 1 : 0;
    if (first <= stored + 1) {
      const bool torn = left_out > stored && left_out <= last;
      num_torn += torn ? 1 : 0;
      stored = std::max(stored, torn ? left_out - 1 : last);
    }
    ASSERT_EQ(*store_.Append(1, batch), stored) << "batch " << i;
  }
  EXPECT_GT(std::min({num_ahead, num_torn, num_again}), 20) << "the batches were all of one kind";
  store_.Reopen();
  auto page = store_->Read([&](MetricReader& reader) { return reader.ReadPoints("j", 0, 0, 1 << 20); });
  ASSERT_EQ(page->segments.size(), 1u);
  EXPECT_EQ(page->segments[0].batch.steps().SerializeAsString(), Steps(1, stored).steps().SerializeAsString());
}

TEST_F(MetricStoreTest, FillsColumnsThatAnOlderTrainerDoesNotSend) {
  v1::TelemetryBatch batch = Steps(1, 3);
  batch.mutable_steps()->clear_data_wait_seconds();
  batch.mutable_steps()->clear_skipped();
  ASSERT_TRUE(store_.Append(1, batch).ok());
  auto page = store_->Read([](MetricReader& reader) { return reader.ReadPoints("j", 0, 0, 10); });
  EXPECT_EQ(page->segments[0].batch.steps().data_wait_seconds_size(), 3);
  EXPECT_EQ(page->segments[0].batch.steps().skipped_size(), 3);
}

TEST(MetricChunk, PointsOfAnEarlierVersion_AreReadWithPhases) {
  v1::TelemetryBatch stored = Steps(1, 2);
  for (const float loss : {3.0f, 4.0f}) {
    stored.mutable_steps()->add_generator_loss(loss);
    stored.mutable_steps()->add_generator_grad_norm(1);
    stored.mutable_steps()->add_generator_skipped(false);
    stored.mutable_steps()->add_discriminator_skipped(false);
  }
  const auto read = DecodePoints(EncodePoints(stored));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->steps().phases_size(), 2);
  EXPECT_EQ(read->steps().phases(1).name(), "generator");
  EXPECT_EQ(read->steps().phases(1).loss(1), 4);
  EXPECT_TRUE(read->steps().generator_loss().empty());
}

TEST(MetricChunk, PointsWhoseColumnsDifferInLength_AreDamaged) {
  v1::TelemetryBatch stored = Steps(1, 2);
  stored.mutable_steps()->mutable_loss()->RemoveLast();
  EXPECT_EQ(DecodePoints(EncodePoints(stored)).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(MetricStoreTest, RefusesMalformedTelemetryAndKeepsNothingOfIt) {
  v1::TelemetryBatch ragged = Steps(1, 2);
  ragged.mutable_steps()->add_loss(1);
  EXPECT_EQ(ReasonOf(store_.Append(1, ragged).status()), "MALFORMED_TELEMETRY");
  EXPECT_EQ(AllPoints(), "");
}

TEST_F(MetricStoreTest, LeavesAnEventInPlaceOfTelemetryThatWasRefused) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  EXPECT_EQ(*store_.Skip(1, 4, 6), 6u);
  EXPECT_EQ(*store_.Skip(1, 4, 6), 6u) << "it was sent again";
  EXPECT_EQ(*store_.Append(1, Steps(7, 8)), 8u);
  EXPECT_EQ(AllPoints(), "a1[1-3,7-8]");
  EXPECT_EQ(AllEvents(), "1:TELEMETRY_REFUSED ");
}

// After a restore from a backup, telemetry can be missing that the old server had acknowledged. The agent does not send
// it again.
TEST_F(MetricStoreTest, TelemetryAfterAGapThatNobodyFills_IsStoredBehindAnEvent) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  EXPECT_EQ(*store_.Append(1, Steps(7, 8)), 3u) << "4 to 6 may still come";
  absl::Notification done;
  TelemetryAppend append{"j", 1, 0, Steps(7, 8), /*may_have_gap=*/true};
  ASSERT_TRUE(store_
                  ->AppendTelemetry(append,
                                    [&](const absl::StatusOr<AttemptExtent>& extent) {
                                      EXPECT_EQ(extent->stored_sequence, 8u);
                                      done.Notify();
                                    })
                  .ok());
  done.WaitForNotification();
  EXPECT_EQ(AllPoints(), "a1[1-3,7-8]");
  EXPECT_EQ(AllEvents(), "1:TELEMETRY_REFUSED ");
}

TEST_F(MetricStoreTest, Trim_DeletesWhatTheJournalDoesNotAccountFor) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  ASSERT_TRUE(store_.Append(2, Steps(1, 2)).ok());
  ASSERT_TRUE(store_.Append(1, Steps(1, 2), 0, "later").ok());
  ASSERT_TRUE(store_
                  .AppendEvents({ServerEvent(1, v1::Event::CREATED), ServerEvent(2, v1::Event::ATTEMPT_ASSIGNED),
                                 ServerEvent(3, v1::Event::ATTEMPT_ENDED)})
                  .ok());
  store_.Close();
  {
    const auto writer = MetricWriter::Open(store_.path(), 1 << 20);
    ASSERT_TRUE((*writer)->Trim({{"j", {.last_event = 2, .num_attempts = 1}}}).ok());
  }
  store_.Reopen();
  EXPECT_EQ(AllPoints(), "a1[1-3]");
  EXPECT_EQ(AllEvents(), "1:CREATED 2:ATTEMPT_ASSIGNED ");
  EXPECT_EQ(store_->Read([](MetricReader& reader) { return reader.Extent("later", 1); })->stored_sequence, 0u);
  // Trim deleted the event to which the server had given the number 3, so the server can use this number again.
  ASSERT_TRUE(store_.AppendEvents({ServerEvent(3, v1::Event::STATE_CHANGED)}).ok());
  EXPECT_EQ(AllEvents(), "1:CREATED 2:ATTEMPT_ASSIGNED 4:STATE_CHANGED ");
}

TEST_F(MetricStoreTest, SkipsNothingThatMayStillCome) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  EXPECT_EQ(*store_.Skip(1, 5, 6), 3u) << "4 was skipped, too";
  EXPECT_EQ(store_.Skip(1, 4, 1ull << 60).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*store_.Append(1, Steps(4, 9)), 9u);
  EXPECT_EQ(AllEvents(), "");
}

TEST_F(MetricStoreTest, FirstTelemetryOfAnAttemptThatIsSkipped_StillSupersedesTheEarlierOnes) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 10)).ok());
  EXPECT_EQ(*store_.Skip(2, 1, 4, /*from_step=*/6), 4u);
  ASSERT_TRUE(store_.Append(2, Steps(5, 5, 5), 6).ok());
  EXPECT_EQ(AllPoints(), "a1[1-6] a1![7-10] a2[5]");
}

class FailingStoreTest : public MetricStoreTest {
 protected:
  static void SetUpTestSuite() { vfs_ = new FaultyVfs; }  // Must be set before the store opens its files.
  static void TearDownTestSuite() { delete std::exchange(vfs_, nullptr); }

  static FaultyVfs* vfs_;
};

FaultyVfs* FailingStoreTest::vfs_ = nullptr;

TEST_F(FailingStoreTest, ServerEventsWaitInTheirOrderWhileTheDiskTakesNothing) {
  ASSERT_TRUE(store_.AppendEvents({ServerEvent(1, v1::Event::CREATED)}).ok());
  vfs_->Arm(1, /*sticky=*/true, FaultyVfs::Fault::kFull);
  std::vector<absl::Status> answers;
  absl::Notification second, third;
  ASSERT_TRUE(store_
                  ->AppendServerEvents("j", {ServerEvent(2, v1::Event::ATTEMPT_ASSIGNED)},
                                       [&](const absl::Status& status) {
                                         answers.push_back(status);
                                         second.Notify();
                                       })
                  .ok());
  EXPECT_EQ(ReasonOf(store_.Append(1, Steps(1, 3)).status()), "DISK_FULL") << "telemetry comes again, it need not wait";
  ASSERT_TRUE(store_
                  ->AppendServerEvents("j", {ServerEvent(3, v1::Event::STATE_CHANGED)},
                                       [&](const absl::Status& status) {
                                         answers.push_back(status);
                                         third.Notify();
                                       })
                  .ok());
  EXPECT_FALSE(store_->Flush()) << "what is not durable was said to be";
  EXPECT_TRUE(vfs_->fired());
  EXPECT_FALSE(second.HasBeenNotified());
  vfs_->Disarm();
  third.WaitForNotification();
  EXPECT_EQ(answers, (std::vector<absl::Status>{absl::OkStatus(), absl::OkStatus()}));
  EXPECT_TRUE(store_->Flush());
  store_.Reopen();
  EXPECT_EQ(AllEvents(), "1:CREATED 2:ATTEMPT_ASSIGNED 3:STATE_CHANGED ");
}

TEST_F(FailingStoreTest, EventsBeyondTheBound_AreLeftToTheNextServer) {
  store_.max_queue_bytes = 2000;
  store_.Reopen();
  vfs_->Arm(1, /*sticky=*/true, FaultyVfs::Fault::kFull);
  absl::Status status;
  for (uint64_t sequence = 1; status.ok() && sequence < 100; ++sequence) {
    status = store_->AppendServerEvents("j", {ServerEvent(sequence, v1::Event::CREATED)}, [](const absl::Status&) {});
  }
  EXPECT_EQ(ReasonOf(status), "STORE_BUSY");
  vfs_->Disarm();
  EXPECT_FALSE(store_->Flush()) << "the ledger would drop what the lost events can be made from";
  store_.Reopen();
  EXPECT_TRUE(store_->Flush());
}

TEST_F(FailingStoreTest, EventsFasterThanAHealthyDisk_AreAllKept) {
  store_.max_queue_bytes = 2000;
  store_.Reopen();
  for (uint64_t sequence = 1; sequence <= 300; ++sequence) {
    ASSERT_TRUE(
        store_->AppendServerEvents("j", {ServerEvent(sequence, v1::Event::CREATED)}, [](const absl::Status&) {}).ok());
  }
  EXPECT_TRUE(store_->Flush());
  const auto read = store_->Read([](MetricReader& reader) { return reader.ReadEvents("j", 0, 1000); });
  EXPECT_EQ(read->events.size(), 300u);
}

TEST_F(FailingStoreTest, StoreThatEndsWhileTheDiskTakesNothing_AnswersAllThatWait) {
  vfs_->Arm(1, /*sticky=*/true, FaultyVfs::Fault::kFull);
  absl::Status answer;
  ASSERT_TRUE(store_
                  ->AppendServerEvents("j", {ServerEvent(1, v1::Event::CREATED)},
                                       [&](const absl::Status& status) { answer = status; })
                  .ok());
  EXPECT_FALSE(store_->Flush());
  store_.Close();
  vfs_->Disarm();
  EXPECT_EQ(ReasonOf(answer), "DISK_FULL");
}

TEST_F(MetricStoreTest, PushesBackWhenItsQueueIsFull) {
  store_.max_queue_bytes = 100'000;
  store_.Reopen();
  absl::Notification entered, leave;
  ASSERT_TRUE(store_
                  ->DeleteJob("other",
                              [&](absl::Status) {
                                entered.Notify();
                                leave.WaitForNotification();
                              })
                  .ok());
  entered.WaitForNotification();
  absl::Status status;
  int accepted = 0;
  for (uint64_t i = 0; i < 100 && status.ok(); ++i) {
    status = store_->AppendTelemetry({"j", 1, 0, Steps(i * 100 + 1, i * 100 + 100)}, [](auto) {});
    accepted += status.ok() ? 1 : 0;
  }
  EXPECT_EQ(ReasonOf(status), "STORE_BUSY");
  EXPECT_TRUE(RetryDelayOf(status).has_value());
  leave.Notify();
  store_->Flush();
  auto extent = store_->Read([](MetricReader& reader) { return reader.Extent("j", 1); });
  EXPECT_EQ(extent->stored_sequence, static_cast<uint64_t>(accepted) * 100) << "what was accepted is stored";
}

TEST_F(MetricStoreTest, DeletesOneJobAndNothingElse) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 3), 0, "j").ok());
  ASSERT_TRUE(store_.Append(1, Steps(1, 3), 0, "k").ok());
  absl::Notification done;
  ASSERT_TRUE(store_->DeleteJob("j", [&](absl::Status) { done.Notify(); }).ok());
  done.WaitForNotification();
  EXPECT_EQ(AllPoints(), "");
  auto kept = store_->Read([](MetricReader& reader) { return reader.ReadPoints("k", 0, 0, 10); });
  EXPECT_EQ(Show(kept->segments), "a1[1-3]");
}

TEST_F(MetricStoreTest, ListsJobsThatWroteNothingForAWhile) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 3), 0, "old").ok());
  store_.clock().Advance(absl::Hours(2));
  ASSERT_TRUE(store_.Append(1, Steps(1, 3), 0, "young").ok());
  auto idle = store_->Read(
      [&](MetricReader& reader) { return reader.ListJobsIdleSince(store_.clock().Now() - absl::Hours(1), 10); });
  EXPECT_EQ(*idle, std::vector<std::string>{"old"});
}

TEST_F(MetricStoreTest, RefusesAFileOfANewerServer) {
  {
    auto database = SqliteDatabase::Open(store_.path(), false);
    ASSERT_TRUE(database->Execute("PRAGMA user_version=99").ok());
  }
  MetricStore::Options options;
  options.path = store_.path();
  options.clock = &store_.clock();
  EXPECT_EQ(ReasonOf(MetricStore::Open(options).status()), "NEWER_SCHEMA");
}

}  // namespace
}  // namespace ampd::server
