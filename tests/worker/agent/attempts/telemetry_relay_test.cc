#include "worker/agent/attempts/telemetry_relay.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ampd::agent {
namespace {

using testing::ElementsAre;
using v1::TelemetryBatch;

// Adds one record to `batch`. The sequence determines the record's kind.
void AddRecord(TelemetryBatch& batch, uint64_t sequence) {
  if (sequence % 7 == 3) {
    batch.add_evals()->set_sequence(sequence);
    batch.mutable_evals()->rbegin()->set_loss(0.5 * static_cast<double>(sequence));
  } else if (sequence % 7 == 5) {
    batch.add_events()->set_attempt_sequence(sequence);
    batch.mutable_events()->rbegin()->set_message(absl::StrCat("event ", sequence));
  } else if (sequence % 7 == 6) {
    batch.add_samples()->set_attempt_sequence(sequence);
    batch.mutable_samples()->rbegin()->set_content(absl::StrCat("sample ", sequence));
  } else {
    batch.mutable_steps()->add_sequence(sequence);
    batch.mutable_steps()->add_step(static_cast<int64_t>(sequence));
    batch.mutable_steps()->add_loss(0.5f * static_cast<float>(sequence));
  }
}

TelemetryBatch Records(uint64_t first, uint64_t last) {
  TelemetryBatch batch;
  for (uint64_t sequence = first; sequence <= last; ++sequence) {
    AddRecord(batch, sequence);
  }
  return batch;
}

TelemetryBatch Steps(uint64_t first, uint64_t last) {
  TelemetryBatch batch;
  for (uint64_t sequence = first; sequence <= last; ++sequence) {
    batch.mutable_steps()->add_sequence(sequence);
    batch.mutable_steps()->add_loss(0.5f * static_cast<float>(sequence));
  }
  return batch;
}

// Returns the records of a batch by sequence, as texts such as "step 4 loss 2".
std::map<uint64_t, std::string> Content(const TelemetryBatch& batch) {
  std::map<uint64_t, std::string> content;
  const auto add = [&](uint64_t sequence, std::string text) {
    EXPECT_TRUE(content.emplace(sequence, std::move(text)).second) << sequence << " is there twice";
  };
  for (int i = 0; i < batch.steps().sequence_size(); ++i) {
    add(batch.steps().sequence(i), absl::StrCat("step loss ", batch.steps().loss(i)));
  }
  for (const v1::EvalPoint& eval : batch.evals()) {
    add(eval.sequence(), absl::StrCat("eval loss ", eval.loss()));
  }
  for (const v1::Event& event : batch.events()) {
    add(event.attempt_sequence(), event.message());
  }
  for (const v1::Sample& sample : batch.samples()) {
    add(sample.attempt_sequence(), sample.content());
  }
  return content;
}

std::string Sequences(const TelemetryBatch& batch) {
  return absl::StrJoin(Content(batch), " ",
                       [](std::string* text, const auto& entry) { absl::StrAppend(text, entry.first); });
}

// Sends all batches that the relay offers, and returns them as texts.
std::vector<std::string> SendAll(TelemetryRelay& relay) {
  std::vector<std::string> sent;
  while (const TelemetryBatch* batch = relay.Next()) {
    sent.push_back(Sequences(*batch));
    relay.Sent();
  }
  return sent;
}

// Sends as many uploads as may be in flight at once. Each upload contains one step. The sequence numbers are 1, 2 and
// so on.
void FillUploads(TelemetryRelay& relay) {
  for (uint64_t sequence = 1; sequence <= TelemetryRelay::kMaxUploads; ++sequence) {
    relay.Add(Steps(sequence, sequence));
    SendAll(relay);
  }
}

TEST(TelemetryRelay, WhatComesWhileUploadsAreOnTheirWay_GoesAsOne) {
  TelemetryRelay relay;
  FillUploads(relay);
  relay.Add(Records(5, 5));
  relay.Add(Records(6, 8));
  relay.Add(Records(9, 11));
  EXPECT_THAT(SendAll(relay), ElementsAre());
  relay.Acknowledge(1);
  ASSERT_NE(relay.Next(), nullptr);
  EXPECT_EQ(Content(*relay.Next()), Content(Records(5, 11)));
  EXPECT_THAT(SendAll(relay), ElementsAre("5 6 7 8 9 10 11"));
  // The merged batch is in flight, so new records must form another batch.
  relay.Add(Records(12, 12));
  relay.Acknowledge(4);
  EXPECT_THAT(SendAll(relay), ElementsAre("12"));
  EXPECT_FALSE(relay.empty());
  relay.Acknowledge(12);
  EXPECT_TRUE(relay.empty());
}

TEST(TelemetryRelay, MergedBatch_KeepsItsBounds) {
  TelemetryRelay relay;
  FillUploads(relay);
  for (uint64_t sequence = 5; sequence <= 3000; ++sequence) {
    relay.Add(Records(sequence, sequence));
  }
  for (uint64_t sequence = 3001; sequence <= 3020; ++sequence) {
    TelemetryBatch large;
    large.add_events()->set_attempt_sequence(sequence);
    large.mutable_events(0)->set_message(std::string(60'000, 'x'));
    relay.Add(large);
  }
  relay.Acknowledge(4);
  int num_batches = 0;
  for (uint64_t next = 5; const TelemetryBatch* batch = relay.Next(); ++num_batches) {
    const std::map<uint64_t, std::string> content = Content(*batch);
    EXPECT_LE(content.size(), static_cast<size_t>(TelemetryRelay::kMaxMergedPoints));
    EXPECT_LE(batch->ByteSizeLong(), TelemetryRelay::kMaxMergedBytes);
    EXPECT_EQ(content.begin()->first, next);
    next = content.rbegin()->first + 1;
    relay.Sent();
    relay.Acknowledge(next - 1);
  }
  EXPECT_TRUE(relay.empty());
  // The small records fill two batches and a part of a third, which also has two of the large events. The other large
  // events are in five more batches. Fewer batches would exceed a limit.
  EXPECT_EQ(num_batches, 3 + 5);
}

TelemetryBatch LargeSample(uint64_t sequence) {
  TelemetryBatch batch;
  batch.add_samples()->set_attempt_sequence(sequence);
  batch.mutable_samples(0)->set_content(std::string(1 << 20, 'x'));
  return batch;
}

TEST(TelemetryRelay, SampleThatIsLargerThanAMergedBatch_GoesAloneAndCounts) {
  TelemetryRelay relay;
  FillUploads(relay);
  relay.Add(Steps(5, 6));
  relay.Add(LargeSample(7));
  relay.Add(Steps(8, 8));
  EXPECT_FALSE(relay.full());
  relay.Acknowledge(4);
  EXPECT_THAT(SendAll(relay), ElementsAre("5 6", "7", "8"));
  for (uint64_t sequence = 9; sequence <= 11; ++sequence) {
    relay.Add(LargeSample(sequence));
  }
  EXPECT_TRUE(relay.full()) << "the trainer is not read until some are stored";
  relay.Acknowledge(9);
  EXPECT_FALSE(relay.full());
  EXPECT_EQ(relay.received(), 11u);
  EXPECT_THAT(SendAll(relay), ElementsAre("10", "11"));
}

TEST(TelemetryRelay, BatchesWhoseColumnsDiffer_GoAsOneWithZeros) {
  TelemetryRelay relay;
  FillUploads(relay);
  relay.Add(Steps(5, 6));
  TelemetryBatch more = Steps(7, 8);
  more.mutable_steps()->add_grad_norm(1);
  more.mutable_steps()->add_grad_norm(2);
  relay.Add(more);
  relay.Acknowledge(4);
  ASSERT_NE(relay.Next(), nullptr);
  EXPECT_THAT(relay.Next()->steps().sequence(), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(relay.Next()->steps().grad_norm(), ElementsAre(0, 0, 1, 2));
}

TEST(TelemetryRelay, BatchWithColumnsOfANewerTrainer_GoesApartAndKeepsThem) {
  TelemetryRelay relay;
  FillUploads(relay);
  relay.Add(Steps(5, 6));
  TelemetryBatch newer = Steps(7, 8);
  newer.mutable_steps()->GetReflection()->MutableUnknownFields(newer.mutable_steps())->AddVarint(1000, 42);
  relay.Add(newer);
  relay.Add(Steps(9, 9));
  relay.Acknowledge(4);
  ASSERT_NE(relay.Next(), nullptr);
  EXPECT_EQ(Sequences(*relay.Next()), "5 6");
  relay.Sent();
  EXPECT_EQ(Sequences(*relay.Next()), "7 8");
  EXPECT_EQ(relay.Next()->steps().GetReflection()->GetUnknownFields(relay.Next()->steps()).field_count(), 1);
  relay.Sent();
  EXPECT_EQ(Sequences(*relay.Next()), "9");
}

TEST(TelemetryRelay, BatchThatTheServerWouldDrop_TakesNoOtherAlong) {
  TelemetryBatch short_column = Steps(7, 8);
  short_column.mutable_steps()->add_grad_norm(1);
  TelemetryBatch unordered = Steps(8, 8);
  unordered.mutable_steps()->add_sequence(7);
  unordered.mutable_steps()->add_loss(1);
  TelemetryBatch unordered_samples;
  unordered_samples.add_samples()->set_attempt_sequence(8);
  unordered_samples.add_samples()->set_attempt_sequence(7);
  for (const TelemetryBatch& malformed : {short_column, unordered, unordered_samples}) {
    TelemetryRelay relay;
    FillUploads(relay);
    relay.Add(Steps(5, 6));
    relay.Add(malformed);
    relay.Add(Steps(9, 10));
    relay.Acknowledge(4);
    EXPECT_THAT(SendAll(relay), ElementsAre("5 6", "7 8", "9 10"));
  }
}

TEST(TelemetryRelay, BatchThatOverlaps_GoesApart) {
  TelemetryRelay relay;
  FillUploads(relay);
  relay.Add(Records(5, 8));
  relay.Add(Records(1, 12));  // a trainer repeats these records on a new connection
  relay.Add(Records(1, 12));
  relay.Add(Records(13, 14));
  relay.Acknowledge(4);
  EXPECT_THAT(SendAll(relay), ElementsAre("5 6 7 8", "1 2 3 4 5 6 7 8 9 10 11 12 13 14"));
}

TEST(TelemetryRelay, NewStream_BringsAllThatIsNotAcknowledgedAgain) {
  TelemetryRelay relay;
  FillUploads(relay);
  relay.Add(Steps(5, 6));
  relay.Acknowledge(2);
  EXPECT_THAT(SendAll(relay), ElementsAre("5 6"));
  relay.Rewind();
  EXPECT_THAT(SendAll(relay), ElementsAre("3", "4", "5 6"));
}

TEST(TelemetryRelay, RefusedAttempt_HoldsNothing) {
  TelemetryRelay relay;
  FillUploads(relay);
  relay.Add(Steps(5, 6));
  relay.Refuse();
  relay.Add(Steps(7, 8));
  EXPECT_TRUE(relay.empty());
  EXPECT_THAT(SendAll(relay), ElementsAre());
  EXPECT_EQ(relay.acknowledged(), 8u);
}

// The trainer repeats batches, connections break at any time, and the server stores only records without gaps between
// them.
TEST(TelemetryRelay, RandomStreams_EveryRecordArrivesOnceAndUnchanged) {
  constexpr uint64_t kNumRecords = 2000;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SeededRandom random(seed);
    TelemetryRelay relay;
    std::map<uint64_t, std::string> stored;
    std::vector<TelemetryBatch> on_their_way;
    uint64_t sent = 0;
    for (int turn = 0; stored.size() < kNumRecords; ++turn) {
      ASSERT_LT(turn, 1'000'000);
      switch (random.Next() % 8) {
        case 0:  // the trainer's connection breaks
          sent = random.Next() % 20 == 0 ? relay.acknowledged() : sent;
          break;
        case 1:  // the stream to the server breaks
          if (random.Next() % 20 == 0) {
            on_their_way.clear();
            relay.Rewind();
          }
          break;
        case 2:
        case 3:
          if (!on_their_way.empty()) {
            for (auto& [sequence, text] : Content(on_their_way.front())) {
              ASSERT_LE(sequence, stored.size() + 1) << "a gap";
              EXPECT_EQ(stored.emplace(sequence, text).first->second, text);
            }
            on_their_way.erase(on_their_way.begin());
            relay.Acknowledge(stored.size());
          }
          break;
        default:
          if (sent < kNumRecords && !relay.full()) {
            const uint64_t last = std::min(kNumRecords, sent + 1 + random.Next() % 5);
            relay.Add(Records(sent + 1, last));
            sent = last;
          }
      }
      while (const TelemetryBatch* batch = relay.Next()) {
        on_their_way.push_back(*batch);
        relay.Sent();
        ASSERT_LE(on_their_way.size(), TelemetryRelay::kMaxUploads);
      }
    }
    EXPECT_EQ(stored, Content(Records(1, kNumRecords)));
    EXPECT_TRUE(relay.empty());
  }
}

}  // namespace
}  // namespace ampd::agent
