#include "server/admission/initial_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "google/protobuf/text_format.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {
namespace {

using ::testing::HasSubstr;

v1::Job Ended() {
  v1::Job job;
  job.set_id("j-a");
  job.set_state(v1::Job::FAILED);
  *job.mutable_spec() = SmallSpec();
  *job.add_checkpoints() = CheckpointAt("j-a", 1, 20);
  *job.add_checkpoints() = CheckpointAt("j-a", 2, 40);
  return job;
}

// Returns a job that begins with the checkpoint at `step` of the job "j-a" (see Ended). Its model is that of "j-a",
// changed by `change`, the text of a ModelSpec.
v1::JobSpec Beginning(int64_t step, const std::string& change = "") {
  v1::JobSpec spec = SmallSpec();
  v1::ModelSpec parsed;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(change, &parsed)) << change;
  spec.mutable_model()->MergeFrom(parsed);
  spec.mutable_model()->mutable_initial_checkpoint()->set_job_id("j-a");
  spec.mutable_model()->mutable_initial_checkpoint()->set_step(step);
  return spec;
}

absl::Status Refusal(const v1::Job& source, v1::JobSpec spec) {
  return ResolveInitialCheckpoint(source, &spec).status();
}

TEST(InitialCheckpoint, WithoutAStep_IsTheNewestAndTheSpecSaysSo) {
  v1::JobSpec spec = Beginning(0);
  const auto start = ResolveInitialCheckpoint(Ended(), &spec);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(start->path(), "j-a/2/step-40");
  EXPECT_EQ(start->step(), 0) << "the job begins there: nothing of it was done before";
  EXPECT_EQ(spec.model().initial_checkpoint().step(), 40);
}

TEST(InitialCheckpoint, OfAStep_IsThatOne) {
  v1::JobSpec spec = Beginning(20);
  const auto start = ResolveInitialCheckpoint(Ended(), &spec);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(start->path(), "j-a/1/step-20");
}

TEST(InitialCheckpoint, ThatTheJobDoesNotKeep_IsNotFound) {
  const absl::Status status = Refusal(Ended(), Beginning(30));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(status), "CHECKPOINT_NOT_FOUND");
  EXPECT_EQ(status.message(),
            "model.initial_checkpoint: job j-a keeps no checkpoint at step 30; it keeps those at 20, 40");
  v1::Job none = Ended();
  none.clear_checkpoints();
  EXPECT_EQ(Refusal(none, Beginning(0)).message(), "model.initial_checkpoint: job j-a keeps no checkpoint");
}

TEST(InitialCheckpoint, OfAJobThatHasNotEnded_IsRefused) {
  v1::Job running = Ended();
  running.set_state(v1::Job::RUNNING);
  EXPECT_EQ(ReasonOf(Refusal(running, Beginning(0))), "WRONG_STATE");
}

TEST(InitialCheckpoint, OfAnotherModel_IsRefusedWithWhatDoesNotFit) {
  const absl::Status wider = Refusal(Ended(), Beginning(0, "mlp {hidden: 256 hidden: 8 num_classes: 3}"));
  EXPECT_EQ(wider.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wider.message()), HasSubstr("model.initial_checkpoint: the tensors are not the model's: "
                                                      "2 missing (layers.4.bias, layers.4.weight), 2 of another shape "
                                                      "(layers.2.bias: [10] instead of [8], layers.2.weight: "
                                                      "[10, 256] instead of [8, 256]); model.initialize_anew"));
  EXPECT_THAT(std::string(Refusal(Ended(), Beginning(0, "lenet {}")).message()), HasSubstr("4 extra (layers.0.bias"));
}

TEST(InitialCheckpoint, ANewHead_MayBeOfAnotherShape) {
  EXPECT_EQ(Refusal(Ended(), Beginning(0, "mlp {num_classes: 3}")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Refusal(Ended(), Beginning(0, "mlp {num_classes: 3} initialize_anew: 'layers.2.*'")).ok());
}

TEST(InitialCheckpoint, OfAnExportedModel_IsForTheWorkerToCompare) {
  EXPECT_TRUE(Refusal(Ended(), Beginning(0, "exported {path: 'a/b'}")).ok());
}

}  // namespace
}  // namespace ampd::server
