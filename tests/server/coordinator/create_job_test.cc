#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "server/coordinator/job_commands.h"
#include "tests/server/coordinator/coordinator_fixtures.h"

namespace ampd::server {
namespace {

using testing::IsEmpty;
using v1::Attempt;
using v1::Job;
using v1::Outcome;

class CreateJobTest : public CoordinatorTest {};

TEST_F(CreateJobTest, RepeatedRequest_GivesTheSameJob) {
  const std::string id = (*Create("r1"))->id();
  EXPECT_EQ((*Create("r1"))->id(), id);
  EXPECT_EQ(ReasonOf(Create("r1", "other").status()), "REQUEST_ID_REUSED");
  StartServer();
  EXPECT_EQ((*Create("r1"))->id(), id);
  EXPECT_EQ(coordinator->queries().ListJobs({})->jobs_size(), 1);
}

TEST_F(CreateJobTest, ValidateOnly_KeepsNothing) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  request.set_validate_only(true);
  absl::StatusOr<JobPtr> result;
  coordinator->commands().CreateJob(request, Into(&result));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ((*result)->spec().max_retries(), 2);
  EXPECT_EQ(coordinator->queries().ListJobs({})->jobs_size(), 0);
}

TEST_F(CreateJobTest, ValidateOnly_SaysWhyNoWorkerFits_AsTheSubmittedJobDoes) {
  const auto why = [this](const v1::JobSpec& spec, bool only_checks) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = spec;
    request.set_validate_only(only_checks);
    absl::StatusOr<JobPtr> result;
    coordinator->commands().CreateJob(request, Into(&result));
    Pump();
    EXPECT_TRUE(result.ok()) << result.status();
    v1::Job job = **result;
    if (!only_checks) {
      coordinator->queries().AddPending(&job);
    }
    return absl::StrCat(job.pending().no_worker_fits(), " ", v1::PendingReason::Code_Name(job.pending().reason()), " ",
                        job.pending().message());
  };
  EXPECT_EQ(why(SmallSpec(), true), "1 NO_WORKERS no worker has ever reported a device");
  ScriptedWorker worker("w1");
  Exchange(worker);
  v1::JobSpec large = SmallSpec();
  large.mutable_resources()->set_memory_bytes(int64_t{1} << 50);
  const std::string checked = why(large, true);
  EXPECT_THAT(checked, testing::StartsWith("1 INSUFFICIENT_MEMORY "));
  EXPECT_EQ(why(large, false), checked);
  EXPECT_THAT(why(SmallSpec(), true), testing::StartsWith("0 "));
}

TEST_F(CreateJobTest, FullDisk_RefusesSubmitsButNotCancels) {
  const std::string id = CreateId();
  disk->has_room = false;
  const absl::Status refused = Create().status();
  EXPECT_EQ(ReasonOf(refused), "DISK_FULL");
  EXPECT_TRUE(RetryDelayOf(refused).has_value());
  absl::StatusOr<JobPtr> result;
  v1::CancelJobRequest cancel;
  cancel.set_id(id);
  coordinator->commands().CancelJob(cancel, Into(&result));
  Pump();
  EXPECT_EQ((*result)->state(), Job::CANCELLED);
}

TEST_F(CreateJobTest, ARepeatOfAnOlderRequest_IsAnsweredWhateverIsAdmittedToday) {
  // An older server accepted this request, because it did not check unknown fields and admitted names that are refused
  // today.
  v1::CreateJobRequest request;
  request.set_request_id("r1");
  *request.mutable_spec() = SmallSpec("Old Name");
  auto* const train = request.mutable_spec()->mutable_train();
  train->GetReflection()->MutableUnknownFields(train)->AddVarint(999, 1);
  internal::Update update;
  update.mutable_create_job()->set_id("j-old");
  *update.mutable_create_job()->mutable_spec() = request.spec();
  update.mutable_create_job()->set_request_id("r1");
  update.mutable_create_job()->set_request_digest(Sha256Hex(request.spec().SerializeAsString()));
  ledger->Commit(update, [](const absl::StatusOr<Applied>& applied) { ASSERT_TRUE(applied.ok()); });
  Pump();
  const auto ask = [&] {
    absl::StatusOr<JobPtr> answer = absl::UnknownError("never answered");
    coordinator->commands().CreateJob(request, Into(&answer));
    Pump();
    return answer;
  };
  const absl::StatusOr<JobPtr> repeated = ask();
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_EQ((*repeated)->id(), "j-old");
  train->GetReflection()->MutableUnknownFields(train)->AddVarint(999, 2);
  EXPECT_EQ(ReasonOf(ask().status()), "REQUEST_ID_REUSED");
  request.set_request_id("r2");
  EXPECT_EQ(ask().status().code(), absl::StatusCode::kInvalidArgument) << "a new request";
}

TEST_F(CreateJobTest, SpecsAreBoundedTogether) {
  max_spec_bytes = 1000;
  StartServer();
  std::vector<std::string> ids;
  absl::StatusOr<JobPtr> created = Create();
  while (created.ok()) {
    ids.push_back((*created)->id());
    ASSERT_LT(ids.size(), 100u);
    created = Create();
  }
  EXPECT_EQ(created.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(created.status()), "SPECS_TOO_LARGE");
  EXPECT_THAT(std::string(created.status().message()), testing::HasSubstr("may have 1000 together"));
  EXPECT_TRUE(RetryDelayOf(created.status()).has_value());
  StartServer();
  EXPECT_EQ(ReasonOf(Create().status()), "SPECS_TOO_LARGE") << "also what was there at the start is counted";
  v1::CancelJobRequest cancel;
  cancel.set_id(ids[0]);
  coordinator->commands().CancelJob(cancel, [](absl::StatusOr<JobPtr>) {});
  Pump();
  v1::DeleteJobRequest remove;
  remove.set_id(ids[0]);
  coordinator->commands().DeleteJob(remove, [](absl::Status status) { EXPECT_TRUE(status.ok()) << status; });
  Pump();
  EXPECT_TRUE(Create().ok());
}

TEST_F(CreateJobTest, CloneOfAnEndedJob_GoesOnFromItsCheckpoint) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  v1::CloneJobRequest request;
  request.set_id(id);
  request.set_from_last_checkpoint(true);
  absl::StatusOr<JobPtr> clone;
  coordinator->commands().CloneJob(request, Into(&clone));
  EXPECT_EQ(ReasonOf(clone.status()), "WRONG_STATE");
  v1::AttemptReport& ended = worker.Has(key, Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::NONFINITE_LOSS);
  Exchange(worker);
  coordinator->commands().CloneJob(request, Into(&clone));
  Pump();
  ASSERT_TRUE(clone.ok()) << clone.status();
  EXPECT_EQ((*clone)->cloned_from(), id);
  const v1::WorkerDirective directive = *coordinator->sessions().CurrentDirective("w1", "a1");
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).start_from().path(), absl::StrCat(id, "/1/step-40"));
  absl::Status removed;
  v1::DeleteJobRequest remove;
  remove.set_id(id);
  coordinator->commands().DeleteJob(remove, [&](absl::Status status) { removed = status; });
  Pump();
  EXPECT_EQ(ReasonOf(removed), "CHECKPOINT_IN_USE");
}

TEST_F(CreateJobTest, CloneOfASucceededJob_BeginsAnewAndDoesNotGoOn) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  v1::AttemptReport& ended = worker.Has(StartOn(worker, id), Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
  Exchange(worker);
  v1::CloneJobRequest request;
  request.set_id(id);
  request.set_from_last_checkpoint(true);
  absl::StatusOr<JobPtr> clone;
  coordinator->commands().CloneJob(request, Into(&clone));
  EXPECT_EQ(ReasonOf(clone.status()), "WRONG_STATE");
  EXPECT_EQ(MetadataOf(clone.status()).at("state"), "SUCCEEDED");
  EXPECT_THAT(std::string(clone.status().message()), testing::HasSubstr("nothing is left to continue"));
  request.set_from_last_checkpoint(false);
  coordinator->commands().CloneJob(request, Into(&clone));
  Pump();
  EXPECT_TRUE(clone.ok()) << clone.status();
}

TEST_F(CreateJobTest, CloneOfACloneThatNeverBegan_KeepsTheCheckpointOfTheFirst) {
  ScriptedWorker worker("w1");
  const std::string first = CreateId();
  v1::AttemptReport& ended = worker.Has(StartOn(worker, first), Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(first, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::NONFINITE_LOSS);
  Exchange(worker);
  v1::DrainWorkerRequest drain;
  drain.set_name("w1");
  coordinator->sessions().DrainWorker(drain, [](const absl::StatusOr<v1::Worker>&) {});
  Pump();
  const auto clone = [this](const std::string& id) {
    v1::CloneJobRequest request;
    request.set_id(id);
    request.set_from_last_checkpoint(true);
    absl::StatusOr<JobPtr> made;
    coordinator->commands().CloneJob(request, Into(&made));
    Pump();
    EXPECT_TRUE(made.ok()) << made.status();
    return (*made)->id();
  };
  const auto remove = [this](const std::string& id) {
    absl::Status removed;
    v1::DeleteJobRequest request;
    request.set_id(id);
    coordinator->commands().DeleteJob(request, [&](absl::Status status) { removed = status; });
    Pump();
    return removed;
  };
  const auto cancel = [this](const std::string& id) {
    v1::CancelJobRequest request;
    request.set_id(id);
    absl::StatusOr<JobPtr> cancelled;
    coordinator->commands().CancelJob(request, Into(&cancelled));
    Pump();
    EXPECT_TRUE(cancelled.ok()) << cancelled.status();
  };
  const std::string second = clone(first);
  cancel(second);
  const std::string third = clone(second);
  EXPECT_EQ(ReasonOf(remove(first)), "CHECKPOINT_IN_USE");
  cancel(third);
  EXPECT_TRUE(remove(first).ok());
}

// The job `first` ended with a checkpoint. The job `second` is a clone of it that ended without a checkpoint of its
// own.
class CloneOfACloneTest : public CoordinatorTest {
 protected:
  void SetUp() override {
    CoordinatorTest::SetUp();
    ScriptedWorker worker("w1");
    first = CreateId();
    v1::AttemptReport& ended = worker.Has(StartOn(worker, first), Attempt::ENDED);
    *ended.add_checkpoints() = CheckpointAt(first, 1, 40);
    *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::NONFINITE_LOSS);
    Exchange(worker);
    v1::DrainWorkerRequest drain;
    drain.set_name("w1");
    coordinator->sessions().DrainWorker(drain, [](const absl::StatusOr<v1::Worker>&) {});
    Pump();
    AskForClone(first, "");
    Pump();
    ASSERT_TRUE(clone.ok()) << clone.status();
    second = (*clone)->id();
    v1::CancelJobRequest cancel;
    cancel.set_id(second);
    absl::StatusOr<JobPtr> cancelled;
    coordinator->commands().CancelJob(cancel, Into(&cancelled));
    Pump();
  }
  void AskForClone(const std::string& id, const std::string& request_id) {
    v1::CloneJobRequest request;
    request.set_id(id);
    request.set_from_last_checkpoint(true);
    request.set_request_id(request_id);
    coordinator->commands().CloneJob(request, Into(&clone));
  }
  void AskToRemoveFirst() {
    v1::DeleteJobRequest request;
    request.set_id(first);
    coordinator->commands().DeleteJob(request, [](absl::Status status) { EXPECT_TRUE(status.ok()) << status; });
  }
  void AskToRemoveTheCheckpoint() {
    v1::DeleteCheckpointRequest request;
    request.set_id(first);
    request.set_attempt(1);
    request.set_step(40);
    coordinator->commands().DeleteCheckpoint(request, [](absl::Status status) { EXPECT_TRUE(status.ok()) << status; });
  }
  std::string ReasonOfClone() {
    clone = absl::UnknownError("never answered");
    AskForClone(second, "");
    Pump();
    return ReasonOf(clone.status());
  }
  void Archive() {
    clock.Advance(absl::Hours(2));
    coordinator->Tick();
    Pump();
    EXPECT_EQ(Shown(first), "none");
  }

  std::string first, second;
  absl::StatusOr<JobPtr> clone = absl::UnknownError("never answered");
};

TEST_F(CloneOfACloneTest, IsRefusedOnceTheFirstIsDeleted) {
  AskToRemoveFirst();
  Pump();
  EXPECT_EQ(ReasonOfClone(), "CHECKPOINT_NOT_FOUND");
  EXPECT_THAT(std::string(clone.status().message()), testing::HasSubstr(first));
  EXPECT_THAT(std::string(clone.status().message()), testing::HasSubstr("a clone can start from the beginning"));
}

TEST_F(CloneOfACloneTest, IsRefusedOnceTheCheckpointIsDeleted) {
  AskToRemoveTheCheckpoint();
  Pump();
  EXPECT_EQ(ReasonOfClone(), "CHECKPOINT_NOT_FOUND");
  EXPECT_EQ(MetadataOf(clone.status()).at("job"), first);
}

TEST_F(CloneOfACloneTest, GoesOnFromTheCheckpointOfAnArchivedJobWhileThatIsThere) {
  Archive();
  EXPECT_EQ(ReasonOfClone(), "");
  ASSERT_TRUE(clone.ok()) << clone.status();
  v1::CancelJobRequest cancel;
  cancel.set_id((*clone)->id());
  absl::StatusOr<JobPtr> cancelled;
  coordinator->commands().CancelJob(cancel, Into(&cancelled));
  AskToRemoveFirst();
  Pump();
  EXPECT_EQ(ReasonOfClone(), "CHECKPOINT_NOT_FOUND");
}

// Requests the clone and the removal of the checkpoint before the ledger applies either of them.
TEST_F(CloneOfACloneTest, IsRefusedWhenTheCheckpointGoesMeanwhile) {
  AskToRemoveTheCheckpoint();
  EXPECT_EQ(ReasonOfClone(), "CHECKPOINT_NOT_FOUND");
}

TEST_F(CloneOfACloneTest, IsToBeAskedAgainWhenTheFirstGoesMeanwhile) {
  AskToRemoveFirst();
  EXPECT_EQ(ReasonOfClone(), "CHECKPOINT_MOVED") << "archived or deleted: the state can't tell";
  EXPECT_EQ(clone.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOfClone(), "CHECKPOINT_NOT_FOUND");
}

TEST_F(CloneOfACloneTest, ARepeatedRequest_IsAnsweredThoughTheFirstIsGone) {
  AskForClone(second, "again");
  Pump();
  ASSERT_TRUE(clone.ok()) << clone.status();
  const std::string third = (*clone)->id();
  v1::CancelJobRequest cancel;
  cancel.set_id(third);
  absl::StatusOr<JobPtr> cancelled;
  coordinator->commands().CancelJob(cancel, Into(&cancelled));
  AskToRemoveFirst();
  AskForClone(second, "again");
  Pump();
  ASSERT_TRUE(clone.ok()) << clone.status();
  EXPECT_EQ((*clone)->id(), third);
  AskForClone(second, "again");
  Pump();
  ASSERT_TRUE(clone.ok()) << clone.status();
  EXPECT_EQ((*clone)->id(), third);
}

// Tests jobs whose model is an artifact. `uploaded` is the only artifact that exists.
class ArtifactTest : public CoordinatorTest {
 protected:
  absl::StatusOr<JobPtr> Begin(const std::string& artifact, const std::string& request_id = "", bool validate = false) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = SmallSpec();
    request.mutable_spec()->mutable_model()->mutable_exported()->set_artifact(artifact);
    request.set_request_id(request_id);
    request.set_validate_only(validate);
    absl::StatusOr<JobPtr> result = absl::UnknownError("never answered");
    coordinator->commands().CreateJob(request, Into(&result));
    held_meanwhile = num_held;
    Pump();
    return result;
  }
  std::string Cancel(const std::string& id) {
    v1::CancelJobRequest request;
    request.set_id(id);
    absl::StatusOr<JobPtr> cancelled;
    coordinator->commands().CancelJob(request, Into(&cancelled));
    Pump();
    return Job::State_Name((*cancelled)->state());
  }

  const std::string digest = std::string(64, 'a');
  int held_meanwhile = 0;
};

TEST_F(ArtifactTest, ThatIsNotUploaded_IsNotFoundAndTheMessageSaysWhatToType) {
  const absl::Status status = Begin(digest).status();
  EXPECT_EQ(ReasonOf(status), "ARTIFACT_NOT_FOUND");
  EXPECT_THAT(status.message(), testing::HasSubstr("ampctl artifact upload"));
  EXPECT_EQ(ReasonOf(Begin(digest, "", /*validate=*/true).status()), "ARTIFACT_NOT_FOUND");
}

TEST_F(ArtifactTest, IsHeldUntilTheJobThatNamesItIsCommitted) {
  uploaded = digest;
  const auto job = Begin(digest);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(held_meanwhile, 1);
  EXPECT_EQ(num_held, 0);
  const std::vector<JobQueries::LiveArtifact> live = coordinator->queries().LiveArtifacts();
  ASSERT_EQ(live.size(), 1u);
  EXPECT_EQ(live[0].tenant, "default");
  EXPECT_EQ(live[0].sha256, digest);
  EXPECT_EQ(live[0].job, (*job)->id());
  EXPECT_TRUE(Begin(digest, "", /*validate=*/true).ok());
  EXPECT_EQ(num_held, 0);
  EXPECT_EQ(Cancel((*job)->id()), "CANCELLED");
  EXPECT_THAT(coordinator->queries().LiveArtifacts(), IsEmpty());
}

TEST_F(ArtifactTest, ARepeatedRequest_IsAnsweredThoughItIsGone) {
  uploaded = digest;
  const std::string id = (*Begin(digest, "r1"))->id();
  uploaded.clear();
  EXPECT_EQ((*Begin(digest, "r1"))->id(), id);
  EXPECT_EQ(ReasonOf(Begin(digest, "r2").status()), "ARTIFACT_NOT_FOUND");
}

TEST_F(ArtifactTest, ACloneNeedsItAgain) {
  uploaded = digest;
  v1::CloneJobRequest request;
  request.set_id((*Begin(digest))->id());
  uploaded.clear();
  absl::StatusOr<JobPtr> cloned = absl::UnknownError("never answered");
  coordinator->commands().CloneJob(request, Into(&cloned));
  Pump();
  EXPECT_EQ(ReasonOf(cloned.status()), "ARTIFACT_NOT_FOUND");
}

TEST_F(ArtifactTest, OfAFileThatIsNoModel_NoJobIsMade) {
  uploaded = digest;
  model_error = InvalidFields({{"model.exported.artifact", "is torn"}});
  EXPECT_EQ(ViolationsOf(Begin(digest).status()).at(0).description, "is torn");
  EXPECT_EQ(ViolationsOf(Begin(digest, "", /*validate=*/true).status()).at(0).description, "is torn");
  EXPECT_EQ(num_models_read, 2);
  EXPECT_EQ(num_held, 0);
  EXPECT_EQ(ledger->Read([](const ClusterState& state) { return state.jobs().size(); }), 0u);
  const absl::Status malformed = Begin("abc").status();
  EXPECT_EQ(ViolationsOf(malformed).at(0).field, "model.exported.artifact") << malformed;
  EXPECT_EQ(num_models_read, 2) << "a name that no artifact has";
}

TEST_F(ArtifactTest, ARepeatedRequest_IsAnsweredThoughTheFileCantBeRead) {
  uploaded = digest;
  const std::string id = (*Begin(digest, "r1"))->id();
  model_error = absl::UnavailableError("the disk");
  EXPECT_EQ((*Begin(digest, "r1"))->id(), id);
  EXPECT_EQ(num_models_read, 1);
  EXPECT_TRUE(absl::IsUnavailable(Begin(digest, "r2").status()));
}

// The job `first` ended on w1 with a local checkpoint at step 40. Other jobs begin with that checkpoint.
class InitialCheckpointTest : public CoordinatorTest {
 protected:
  void SetUp() override {
    CoordinatorTest::SetUp();
    first = CreateId();
    v1::AttemptReport& ended = w1.Has(StartOn(w1, first), Attempt::ENDED);
    v1::Checkpoint local = CheckpointAt(first, 1, 40);
    local.set_local(true);
    *ended.add_checkpoints() = local;
    *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::NONFINITE_LOSS);
    Exchange(w1);
    w1.report.clear_attempts();
    Exchange(w1);
  }
  absl::StatusOr<JobPtr> Begin(const std::string& source, const std::string& request_id = "") {
    v1::CreateJobRequest request;
    *request.mutable_spec() = SmallSpec();
    request.mutable_spec()->mutable_model()->mutable_initial_checkpoint()->set_job_id(source);
    request.set_request_id(request_id);
    absl::StatusOr<JobPtr> result = absl::UnknownError("never answered");
    coordinator->commands().CreateJob(request, Into(&result));
    Pump();
    return result;
  }
  std::string Remove(const std::string& id) {
    absl::Status removed = absl::UnknownError("never answered");
    v1::DeleteJobRequest request;
    request.set_id(id);
    coordinator->commands().DeleteJob(request, [&](absl::Status status) { removed = status; });
    Pump();
    return ReasonOf(removed);
  }

  ScriptedWorker w1{"w1"};
  std::string first;
};

TEST_F(InitialCheckpointTest, IsWhatTheJobBeginsWith_AtItsOwnStepNought) {
  const auto job = Begin(first);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->spec().model().initial_checkpoint().step(), 40);
  EXPECT_EQ((*job)->cloned_from(), "");
  const v1::WorkerDirective directive = *coordinator->sessions().CurrentDirective("w1", "a1");
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).start_from().path(), absl::StrCat(first, "/1/step-40"));
  EXPECT_EQ(directive.attempts(0).start_from().step(), 0);
  EXPECT_TRUE(directive.attempts(0).weights_only());
  EXPECT_EQ(Remove(first), "CHECKPOINT_IN_USE");
  v1::DeleteCheckpointRequest request;
  request.set_id(first);
  request.set_attempt(1);
  request.set_step(40);
  absl::Status dropped;
  coordinator->commands().DeleteCheckpoint(request, [&](absl::Status status) { dropped = status; });
  Pump();
  EXPECT_EQ(ReasonOf(dropped), "CHECKPOINT_IN_USE");
}

TEST_F(InitialCheckpointTest, OfNoJob_IsNotFound) {
  const absl::Status status = Begin("j-nowhere").status();
  EXPECT_EQ(ReasonOf(status), "JOB_NOT_FOUND");
  EXPECT_EQ(status.message(),
            "model.initial_checkpoint.job_id: there is no job j-nowhere; this field takes the id of a job, such as "
            "j-abcdefghijklmnop, and no name");
}

TEST_F(InitialCheckpointTest, ARepeatedRequest_IsAnsweredThoughTheOtherJobIsGone) {
  const std::string id = (*Begin(first, "r1"))->id();
  v1::CancelJobRequest cancel;
  cancel.set_id(id);
  absl::StatusOr<JobPtr> cancelled;
  coordinator->commands().CancelJob(cancel, Into(&cancelled));
  Pump();
  w1.report.clear_attempts();
  Exchange(w1);
  *w1.Has(coordinator->sessions().CurrentDirective("w1", "a1")->attempts(0).key(), Attempt::ENDED).mutable_outcome() =
      OutcomeOf(Outcome::LEFT, v1::Reason::USER_CANCELLED);
  Exchange(w1);
  EXPECT_EQ(Remove(first), "");
  EXPECT_EQ((*Begin(first, "r1"))->id(), id);
  EXPECT_EQ(ReasonOf(Begin(first, "r2").status()), "JOB_NOT_FOUND");
}

TEST_F(InitialCheckpointTest, OnALostWorker_IsWaitedForAndNeverGivenUp) {
  Pass(absl::Seconds(16));
  const std::string id = (*Begin(first))->id();
  ScriptedWorker other("w2");
  for (int minute = 0; minute < 20; ++minute) {
    Exchange(other);
    Pass(absl::Minutes(1));
  }
  Exchange(other);
  EXPECT_EQ(Shown(id), "QUEUED");
  EXPECT_EQ(started_over, "");
  v1::ExplainJobRequest why;
  why.set_id(id);
  EXPECT_EQ(coordinator->queries().ExplainJob(why)->message(),
            absl::StrCat("the checkpoint ", first, "/1/step-40, with which the job begins, is on worker w1 (w2/cpu)"));
}

TEST_F(InitialCheckpointTest, AJobThatStartsOver_BeginsWithItAgain) {
  const std::string id = (*Begin(first))->id();
  v1::Checkpoint own = CheckpointAt(id, 1, 8);
  own.set_local(true);
  *w1.Has(StartOn(w1, id), Attempt::RUNNING).add_checkpoints() = own;
  Exchange(w1);
  w1.report.clear_attempts();
  Pass(absl::Seconds(16));
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST ckpt=8");
  Pass(absl::Seconds(1));  // The wait for the lost worker begins.
  Pass(absl::Minutes(9));
  Pass(absl::Minutes(2));
  EXPECT_EQ(started_over, "worker w1, which holds the checkpoint at step 8, did not come back");
  const v1::WorkerDirective directive = Exchange(w1);
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).start_from().path(), absl::StrCat(first, "/1/step-40"));
}

TEST_F(CreateJobTest, OlderCheckpoints_AreGivenAlongWithTheOneToStartFrom) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  v1::AttemptReport& ended = worker.Has(StartOn(worker, id), Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 20);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::NONFINITE_LOSS);
  Exchange(worker);
  worker.report.clear_attempts();
  v1::CloneJobRequest request;
  request.set_id(id);
  request.set_from_last_checkpoint(true);
  absl::StatusOr<JobPtr> clone;
  coordinator->commands().CloneJob(request, Into(&clone));
  Pump();
  ASSERT_TRUE(clone.ok()) << clone.status();
  v1::AttemptDirective directive = Exchange(worker).attempts(0);
  EXPECT_EQ(directive.start_from().path(), absl::StrCat(id, "/1/step-40"));
  ASSERT_EQ(directive.older_checkpoints_size(), 1);
  EXPECT_EQ(directive.older_checkpoints(0).path(), absl::StrCat(id, "/1/step-20"));
  // The clone's newest checkpoint is its own by now. The older checkpoints, to which it can fall back, belong to the
  // first job.
  v1::AttemptReport& crashed = worker.Has(directive.key(), Attempt::ENDED);
  *crashed.add_checkpoints() = CheckpointAt((*clone)->id(), 1, 60);
  *crashed.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::TRAINER_CRASHED);
  directive = Exchange(worker).attempts(0);
  EXPECT_EQ(directive.start_from().step(), 60);
  ASSERT_EQ(directive.older_checkpoints_size(), 2);
  EXPECT_EQ(directive.older_checkpoints(0).path(), absl::StrCat(id, "/1/step-40"));
  EXPECT_EQ(directive.older_checkpoints(1).path(), absl::StrCat(id, "/1/step-20"));
}

TEST_F(CreateJobTest, OlderCheckpointsOfAnother_AreGivenUnlessAStepWasNamed) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  v1::AttemptReport& ended = worker.Has(StartOn(worker, id), Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 20);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::NONFINITE_LOSS);
  Exchange(worker);
  worker.report.clear_attempts();
  for (const int64_t step : {0, 40}) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = SmallSpec();
    request.mutable_spec()->mutable_model()->mutable_initial_checkpoint()->set_job_id(id);
    request.mutable_spec()->mutable_model()->mutable_initial_checkpoint()->set_step(step);
    absl::StatusOr<JobPtr> job;
    coordinator->commands().CreateJob(request, Into(&job));
    Pump();
    ASSERT_TRUE(job.ok()) << job.status();
    const v1::AttemptDirective directive = Exchange(worker).attempts(0);
    EXPECT_EQ(directive.older_checkpoints_size(), step == 0 ? 1 : 0);
    *worker.Has(directive.key(), Attempt::ENDED).mutable_outcome() =
        OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
    Exchange(worker);
    worker.report.clear_attempts();
  }
}

}  // namespace
}  // namespace ampd::server
