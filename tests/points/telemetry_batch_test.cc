#include "points/telemetry_batch.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "tests/points/records.h"

namespace ampd::points {
namespace {

void AddEval(uint64_t sequence, v1::TelemetryBatch* batch) { batch->add_evals()->set_sequence(sequence); }
void AddEvent(uint64_t sequence, v1::TelemetryBatch* batch) { batch->add_events()->set_attempt_sequence(sequence); }
void AddSample(uint64_t sequence, v1::TelemetryBatch* batch) { batch->add_samples()->set_attempt_sequence(sequence); }

// A batch with every kind of record: steps with the sequences 1 and 3, evaluation 2, event 4, sample 5.
v1::TelemetryBatch Mixed() {
  v1::TelemetryBatch batch;
  *batch.mutable_steps() = Steps({1, 3}, {"a", "b"});
  AddEval(2, &batch);
  AddEvent(4, &batch);
  AddSample(5, &batch);
  return batch;
}

TEST(TelemetryBatch, CountsAndRanges) {
  const v1::TelemetryBatch batch = Mixed();
  EXPECT_EQ(NumPoints(batch), 3);
  EXPECT_EQ(NumRecords(batch), 5);
  EXPECT_EQ(SequenceRange(batch), std::make_pair(uint64_t{1}, uint64_t{5}));
  EXPECT_EQ(SequenceRange({}), std::make_pair(uint64_t{0}, uint64_t{0}));
  EXPECT_EQ(LastPoint(batch), 3u);
  EXPECT_TRUE(CheckBatch(batch).ok()) << CheckBatch(batch);
}

TEST(CheckBatch, SequencesOfOneKindThatDoNotGrow_AreRefused) {
  for (const auto add : {AddEval, AddEvent, AddSample}) {
    v1::TelemetryBatch batch;
    add(7, &batch);
    add(8, &batch);
    EXPECT_TRUE(CheckBatch(batch).ok()) << CheckBatch(batch);
    add(8, &batch);
    EXPECT_EQ(ReasonOf(CheckBatch(batch)), "MALFORMED_TELEMETRY");
    v1::TelemetryBatch zero;
    add(0, &zero);
    EXPECT_EQ(ReasonOf(CheckBatch(zero)), "MALFORMED_TELEMETRY");
  }
  v1::TelemetryBatch ragged = Mixed();
  ragged.mutable_steps()->mutable_phases(0)->clear_loss();
  EXPECT_EQ(ReasonOf(CheckBatch(ragged)), "MALFORMED_TELEMETRY");
}

TEST(ContiguousPart, EndsAtTheFirstGap) {
  v1::TelemetryBatch batch = Mixed();
  AddEvent(7, &batch);
  uint64_t last = 0;
  const v1::TelemetryBatch part = ContiguousPart(batch, 1, &last);
  EXPECT_EQ(last, 5u);
  EXPECT_EQ(NumSteps(part.steps()), 1);
  EXPECT_EQ(part.steps().phases_size(), 2);
  EXPECT_EQ(part.evals_size(), 1);
  EXPECT_EQ(part.events_size(), 1);
  EXPECT_EQ(part.samples_size(), 0) << "samples are stored elsewhere";
  ContiguousPart(batch, 5, &last);
  EXPECT_EQ(last, 5u) << "sequence 6 is missing";
}

// Random batches are split at random places; appending the parts to each other gives the whole batch again.
TEST(AppendBatch, PartsOfAnySplit_JoinToTheWhole) {
  SeededRandom random(7);
  for (int round = 0; round < 200; ++round) {
    v1::TelemetryBatch whole;
    std::vector<v1::TelemetryBatch> parts(1);
    for (uint64_t sequence = 1; sequence <= 20; ++sequence) {
      v1::TelemetryBatch record;
      switch (random.Next() % 4) {
        case 0:
          AddEval(1, &record);
          break;
        case 1:
          AddEvent(1, &record);
          break;
        case 2:
          AddSample(1, &record);
          break;
        default:
          *record.mutable_steps() = Steps({1}, {"a", "b"});
      }
      SetSequence(sequence, &record);
      EXPECT_EQ(SequenceRange(record), std::make_pair(sequence, sequence));
      AppendBatch(record, &whole);
      AppendBatch(record, &parts.back());
      if (random.Next() % 3 == 0) {
        parts.emplace_back();
      }
    }
    v1::TelemetryBatch joined;
    for (const v1::TelemetryBatch& part : parts) {
      EXPECT_TRUE(CheckBatch(part).ok()) << CheckBatch(part);
      AppendBatch(part, &joined);
    }
    ASSERT_EQ(joined.SerializeAsString(), whole.SerializeAsString()) << "round " << round;
  }
}

}  // namespace
}  // namespace ampd::points
