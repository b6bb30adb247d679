#include "server/artifacts/telemetry_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "base/error.h"
#include "base/simulated_clock.h"
#include "points/telemetry_batch.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

void AddSample(uint64_t sequence, const std::string& file_name, v1::TelemetryBatch* batch,
               const std::string& content = "text") {
  v1::Sample* sample = batch->add_samples();
  sample->set_attempt_sequence(sequence);
  sample->set_step(static_cast<int64_t>(sequence));
  sample->set_file_name(file_name);
  sample->set_content(content);
}

class TelemetrySamplesTest : public testing::Test {
 protected:
  TelemetrySamplesTest() {
    key_.set_job_id("j");
    key_.set_attempt(1);
    Open(/*min_free_bytes=*/0);
  }
  void Open(int64_t min_free_bytes) {
    artifacts_.reset();
    ArtifactStore::Options options;
    options.folder = folder_.Path("artifacts");
    options.index_path = folder_.Path("artifacts.db");
    options.clock = &clock_;
    options.quota_bytes = 100;
    options.min_free_bytes = min_free_bytes;
    options.live_uploads = [] { return std::map<std::string, std::string>(); };
    options.job_exists = [](const std::string&) { return true; };
    artifacts_ = *ArtifactStore::Open(std::move(options));
  }
  absl::Status Store(v1::TelemetryBatch* batch) {
    return StoreSamples("default", key_, clock_.Now(), artifacts_.get(), batch);
  }

  TemporaryFolder folder_;
  SimulatedClock clock_;
  v1::AttemptKey key_;
  std::unique_ptr<ArtifactStore> artifacts_;
};

TEST_F(TelemetrySamplesTest, OfWhatIsStoredTheSequenceIsLeft) {
  v1::TelemetryBatch batch = Steps(1, 2);
  AddSample(3, "a.txt", &batch);
  ASSERT_TRUE(Store(&batch).ok());
  EXPECT_EQ(batch.samples_size(), 1);
  EXPECT_THAT(batch.samples(0).content(), "");
  EXPECT_THAT(points::SequenceRange(batch), Pair(1, 3));
  EXPECT_EQ(artifacts_->Find(Tenants::All(), "j/step-3/a.txt")->size_bytes(), 4);
}

TEST_F(TelemetrySamplesTest, OneThatCanNotBeKeptBecomesAnEventInItsPlace) {
  v1::TelemetryBatch batch;
  AddEvent(1, v1::Event::OVERFLOW, &batch);
  AddSample(2, "NOT A NAME", &batch);
  AddSample(3, "a.txt", &batch);
  AddEvent(4, v1::Event::OVERFLOW, &batch);
  AddSample(5, "b.txt", &batch, std::string(97, 'x'));
  ASSERT_TRUE(Store(&batch).ok());
  ASSERT_EQ(batch.events_size(), 4);
  std::vector<uint64_t> sequences;
  for (const v1::Event& event : batch.events()) {
    sequences.push_back(event.attempt_sequence());
  }
  EXPECT_THAT(sequences, ElementsAre(1, 2, 4, 5));
  EXPECT_EQ(batch.events(1).kind(), v1::Event::TELEMETRY_REFUSED);
  EXPECT_THAT(batch.events(1).message(), HasSubstr("NOT A NAME"));
  EXPECT_EQ(batch.events(1).step(), 2);
  EXPECT_THAT(batch.events(3).message(), HasSubstr("quota"));
  EXPECT_EQ(batch.samples_size(), 1);
  EXPECT_THAT(points::SequenceRange(batch), Pair(1, 5));
}

TEST_F(TelemetrySamplesTest, OnAFullDiskASampleBecomesAnEventAndTheRestGoesOn) {
  Open(/*min_free_bytes=*/int64_t{1} << 60);
  v1::TelemetryBatch batch = Steps(1, 2);
  AddSample(3, "a.txt", &batch);
  ASSERT_EQ(Store(&batch), absl::OkStatus());
  EXPECT_EQ(batch.samples_size(), 0);
  ASSERT_EQ(batch.events_size(), 1);
  EXPECT_EQ(batch.events(0).kind(), v1::Event::TELEMETRY_REFUSED);
  EXPECT_THAT(batch.events(0).message(), HasSubstr("disk is nearly full"));
  EXPECT_THAT(points::SequenceRange(batch), Pair(1, 3));
}

// StoreSamples moves the samples of a batch into the artifact store, and leaves only their sequence numbers in the
// batch. The test appends such batches to the metric store, which must find no gap in the numbers.
TEST_F(TelemetrySamplesTest, TheirSequencesCountAmongTheOthers) {
  StoreOnDisk store;
  v1::TelemetryBatch batch = Steps(1, 2);
  AddSample(3, "a.txt", &batch);
  AddStep(4, 4, &batch);
  AddSample(5, "a.txt", &batch);
  ASSERT_TRUE(Store(&batch).ok());
  EXPECT_EQ(*store.Append(1, batch), 5u);
  EXPECT_EQ(*store.Append(1, batch), 5u) << "sent again";
  v1::TelemetryBatch gap;
  AddSample(7, "a.txt", &gap);
  EXPECT_EQ(*store.Append(1, gap), 5u);
  v1::TelemetryBatch only;
  AddSample(6, "a.txt", &only);
  AddSample(7, "a.txt", &only);
  EXPECT_EQ(*store.Append(1, only), 7u);
  EXPECT_EQ(*store.Append(1, Steps(8, 8)), 8u);
  auto read = store->Read([](MetricReader& reader) { return reader.ReadPoints("j", 0, 0, 100); });
  EXPECT_EQ(Show(read->segments), "a1[1-2,4,8]");
  v1::TelemetryBatch backwards;
  AddSample(10, "a.txt", &backwards);
  AddSample(9, "a.txt", &backwards);
  EXPECT_EQ(store.Append(1, backwards).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ampd::server
