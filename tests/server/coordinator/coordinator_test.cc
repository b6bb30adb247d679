#include "server/coordinator/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/simulated_clock.h"
#include "server/ledger/ledger.h"
#include "server/ledger/memory_journal.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using v1::Attempt;
using v1::Job;
using v1::Outcome;

// A worker written out by hand: what it reports is what the test put into `report`.
struct ScriptedWorker {
  explicit ScriptedWorker(const std::string& name, const std::string& agent = "") {
    const v1::Worker worker = CpuWorker(name);
    report.set_worker(name);
    report.set_incarnation(agent + "a1");
    if (!agent.empty()) {
      report.mutable_agent()->set_id(agent);
      report.mutable_agent()->set_place(agent + ":/state");
    }
    *report.mutable_devices() = worker.devices();
    report.mutable_devices(0)->set_memory_free_bytes(4ll << 30);
  }
  v1::AttemptReport& Has(const v1::AttemptKey& key, Attempt::State state) {
    report.clear_attempts();
    v1::AttemptReport& attempt = *report.add_attempts();
    *attempt.mutable_key() = key;
    attempt.set_state(state);
    return attempt;
  }

  v1::WorkerReport report;
};

class CoordinatorTest : public testing::Test, public StateListener {
 protected:
  void SetUp() override { StartServer(); }

  void StartServer() {
    coordinator.reset();
    ledger.reset();
    Ledger::Options ledger_options;
    ledger_options.journal = std::make_unique<MemoryJournal>(disk);
    ledger = *Ledger::Open(std::move(ledger_options));
    Coordinator::Options options;
    options.ledger = ledger.get();
    options.clock = &clock;
    options.random = &random;
    options.lease = absl::Seconds(10);
    options.lease_margin = absl::Seconds(5);
    options.archive_after = archive_after;
    options.retention = retention;
    options.worker_retention = worker_retention;
    options.max_spec_bytes_in_hot_state = max_spec_bytes;
    options.listener = this;
    options.models.hold_artifact = [this](const std::string& artifact) -> absl::StatusOr<std::shared_ptr<void>> {
      if (artifact != uploaded) {
        return absl::NotFoundError("not there");
      }
      ++num_held;
      return std::shared_ptr<void>(nullptr, [this](void*) { --num_held; });
    };
    options.models.read_model =
        [this](const std::string&) -> absl::StatusOr<std::shared_ptr<const graph::ExportedModel>> {
      ++num_models_read;
      EXPECT_GT(num_held, 0);
      return model_error.ok() ? absl::StatusOr<std::shared_ptr<const graph::ExportedModel>>(nullptr) : model_error;
    };
    coordinator = std::make_unique<Coordinator>(options);
    ledger->PublishReplayed();
    ASSERT_TRUE(coordinator->Start().ok());
  }
  void OnHistoryDeleted(const std::string& job) override { histories_deleted.push_back(job); }
  void OnClockLeap(absl::Duration leap) override { leaps.push_back(absl::FormatDuration(leap)); }
  void OnDirectiveDue(const std::string& worker) override { due.push_back(worker); }
  void OnWorkerTrouble(const std::string& worker, const std::string& line) override {
    troubles.push_back(absl::StrCat(worker, ": ", line));
  }
  void OnJobDeleted(const std::string& job) override { deleted.push_back(job); }
  void OnEvents(const std::string&, const std::vector<v1::Event>& events) override {
    num_events += static_cast<int>(events.size());
    for (const v1::Event& event : events) {
      started_over += event.kind() == v1::Event::STARTED_OVER ? event.message() : "";
    }
  }
  void Pump() {
    do {
      while (ledger->CommitGroup()) {
      }
    } while (coordinator->scheduler().RunOnce() > 0);
  }
  JobDone Into(absl::StatusOr<JobPtr>* result) {
    return [result](absl::StatusOr<JobPtr> job) { *result = std::move(job); };
  }
  absl::StatusOr<JobPtr> Create(const std::string& request_id = "", const std::string& name = "job") {
    v1::CreateJobRequest request;
    *request.mutable_spec() = SmallSpec(name);
    request.set_request_id(request_id);
    absl::StatusOr<JobPtr> result = absl::UnknownError("never answered");
    coordinator->commands().CreateJob(request, Into(&result));
    Pump();
    return result;
  }
  std::string CreateId() { return (*Create())->id(); }
  std::string CreateIdOf(const std::string& preset) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = SmallSpec();
    request.mutable_spec()->mutable_precision()->set_preset(preset);
    absl::StatusOr<JobPtr> result = absl::UnknownError("never answered");
    coordinator->commands().CreateJob(request, Into(&result));
    Pump();
    return (*result)->id();
  }
  // One report and all that follows from it; then, as a stream would, the directive that is due.
  v1::WorkerDirective Exchange(ScriptedWorker& worker) {
    worker.report.set_sequence(worker.report.sequence() + 1);
    worker.report.set_send_boottime_nanos(static_cast<int64_t>(worker.report.sequence()));
    const auto answer = coordinator->sessions().HandleReport(worker.report);
    EXPECT_TRUE(answer.ok()) << answer.status();
    Pump();
    v1::WorkerDirective directive =
        *coordinator->sessions().CurrentDirective(worker.report.worker(), worker.report.incarnation());
    *worker.report.mutable_reflected() = directive.id();
    return directive;
  }
  // The worker comes, is given the only job that waits, and runs it.
  v1::AttemptKey StartOn(ScriptedWorker& worker, const std::string& job) {
    const v1::WorkerDirective directive = Exchange(worker);
    EXPECT_EQ(directive.attempts_size(), 1);
    const v1::AttemptKey key = directive.attempts(0).key();
    EXPECT_EQ(key.job_id(), job);
    worker.Has(key, Attempt::RUNNING);
    Exchange(worker);
    return key;
  }
  std::string Shown(const std::string& job) {
    return ledger->Read([&](const ClusterState& state) { return Show(state, job).substr(job.size() + 1); });
  }
  std::string PrecisionOf(const std::string& job) {
    const Attempt attempt = *coordinator->queries().GetJob(job).value()->attempts().rbegin();
    return absl::StrCat(attempt.precision(), attempt.emulated() ? " emulated" : "");
  }
  v1::Worker ViewOf(const std::string& worker) {
    const v1::ListWorkersResponse response = coordinator->sessions().ListWorkers(v1::ListWorkersRequest()).value();
    for (const v1::Worker& view : response.workers()) {
      if (view.name() == worker) {
        return view;
      }
    }
    return v1::Worker();
  }
  std::string RemoveWorker(const std::string& name) {
    absl::Status removed = absl::UnknownError("never answered");
    v1::RemoveWorkerRequest request;
    request.set_name(name);
    coordinator->sessions().RemoveWorker(request, [&](absl::Status status) { removed = status; });
    Pump();
    return removed.ok() ? "OK" : ReasonOf(removed);
  }
  void Pass(absl::Duration duration) {
    clock.Advance(duration);
    coordinator->Tick();
    Pump();
  }

  SimulatedClock clock;
  SeededRandom random{42};
  std::shared_ptr<MemoryJournal::Disk> disk = std::make_shared<MemoryJournal::Disk>();
  std::unique_ptr<Ledger> ledger;
  std::unique_ptr<Coordinator> coordinator;
  std::vector<std::string> due;
  absl::Duration archive_after = absl::Hours(1);
  absl::Duration worker_retention = absl::Hours(48);
  size_t max_spec_bytes = size_t{512} << 20;
  RetentionPolicy retention = {absl::Hours(24), absl::ZeroDuration()};
  std::vector<std::string> deleted;
  std::vector<std::string> histories_deleted;
  std::vector<std::string> leaps;
  std::vector<std::string> troubles;  // Troubles of workers.
  int num_events = 0;
  std::string uploaded;  // the one artifact that is there
  int num_held = 0;
  absl::Status model_error;  // The error of reading the uploaded model.
  int num_models_read = 0;
  std::string started_over;  // why
};

TEST_F(CoordinatorTest, SubmittedJob_IsPlacedAtOnceAndTheStreamIsTold) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  due.clear();
  const std::string id = CreateId();
  EXPECT_EQ(Shown(id), "STARTING@w1#1");
  EXPECT_THAT(due, testing::Contains("w1"));
  const v1::WorkerDirective directive = *coordinator->sessions().CurrentDirective("w1", "a1");
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).key().job_id(), id);
  EXPECT_EQ(directive.attempts(0).precision(), "fp32");
  EXPECT_EQ(directive.attempts(0).desired(), Job::RUN);
  EXPECT_GE(directive.attempts(0).key().token().size(), 20u);
}

TEST_F(CoordinatorTest, JobRunsToItsEnd_AndTheOutcomeIsAcknowledgedOnlyWhenDurable) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  *worker.Has(key, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::FINISHED, v1::SUCCEEDED_NORMALLY);
  worker.report.set_sequence(worker.report.sequence() + 1);
  const auto at_once = coordinator->sessions().HandleReport(worker.report);
  EXPECT_EQ(at_once->acknowledged_outcomes_size(), 0) << "acknowledged before it was on disk";
  Pump();
  EXPECT_EQ(Shown(id), "SUCCEEDED SUCCEEDED_NORMALLY");
  EXPECT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->acknowledged_outcomes_size(), 1);
  EXPECT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->attempts_size(), 0);
}

TEST_F(CoordinatorTest, RepeatedRequest_GivesTheSameJob) {
  const std::string id = (*Create("r1"))->id();
  EXPECT_EQ((*Create("r1"))->id(), id);
  EXPECT_EQ(ReasonOf(Create("r1", "other").status()), "REQUEST_ID_REUSED");
  StartServer();
  EXPECT_EQ((*Create("r1"))->id(), id);
  EXPECT_EQ(coordinator->queries().ListJobs({})->jobs_size(), 1);
}

TEST_F(CoordinatorTest, ValidateOnly_KeepsNothing) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  request.set_validate_only(true);
  absl::StatusOr<JobPtr> result;
  coordinator->commands().CreateJob(request, Into(&result));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ((*result)->spec().max_retries(), 2);
  EXPECT_EQ(coordinator->queries().ListJobs({})->jobs_size(), 0);
}

TEST_F(CoordinatorTest, FullDisk_RefusesSubmitsButNotCancels) {
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

TEST_F(CoordinatorTest, Cancel_ReachesTheWorkerAndTheEnd) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  absl::StatusOr<JobPtr> result;
  v1::CancelJobRequest cancel;
  cancel.set_id(id);
  coordinator->commands().CancelJob(cancel, Into(&result));
  Pump();
  EXPECT_EQ((*result)->state(), Job::CANCELLING);
  EXPECT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->attempts(0).desired(), Job::CANCEL);
  *worker.Has(key, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::LEFT, v1::USER_CANCELLED);
  Exchange(worker);
  EXPECT_EQ(Shown(id), "CANCELLED USER_CANCELLED");
}

TEST_F(CoordinatorTest, LeaseIsRenewedFromTheReportThatAsked) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  worker.report.set_sequence(7);
  worker.report.set_send_boottime_nanos(777);
  const auto directive = coordinator->sessions().HandleReport(worker.report);
  EXPECT_EQ(directive->renewal_of_boottime_nanos(), 777);
  EXPECT_EQ(directive->lease().seconds(), 10);
  const auto repeated = coordinator->sessions().HandleReport(worker.report);
  EXPECT_EQ(repeated->renewal_of_boottime_nanos(), 0) << "a doubled report renewed the lease";
  EXPECT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->renewal_of_boottime_nanos(), 0);
}

TEST_F(CoordinatorTest, SilentWorker_LosesItsJobsOnlyAfterLeaseAndMargin) {
  ScriptedWorker worker("w1");
  ScriptedWorker other("w2");
  const std::string id = CreateId();
  StartOn(worker, id);
  Pass(absl::Seconds(15));
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  Exchange(other);
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(Shown(id), "STARTING@w2#2");
}

TEST_F(CoordinatorTest, LossOnItsWayToDisk_StopsRenewals) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  StartOn(worker, id);
  clock.Advance(absl::Seconds(16));
  coordinator->Tick();
  worker.report.set_sequence(worker.report.sequence() + 1);
  EXPECT_EQ(coordinator->sessions().HandleReport(worker.report)->renewal_of_boottime_nanos(), 0);
  Pump();
  Exchange(worker);
  EXPECT_NE(Shown(id), "RUNNING@w1#1");
}

TEST_F(CoordinatorTest, ReturnedWorker_IsToldToEndWhatItLost) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey first = StartOn(worker, id);
  Pass(absl::Seconds(16));
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST");
  const v1::WorkerDirective directive = Exchange(worker);
  for (const auto& attempt : directive.attempts()) {
    EXPECT_NE(attempt.key().token(), first.token());
  }
  *worker.Has(first, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::FINISHED, v1::SUCCEEDED_NORMALLY);
  worker.report.clear_reflected();
  EXPECT_EQ(Exchange(worker).acknowledged_outcomes_size(), 1);
  EXPECT_EQ(Shown(id).substr(0, 9), "STARTING@") << "a fenced outcome ended the job";
  EXPECT_EQ(ReasonOf(coordinator->queries().FindAttempt(first).status()), "FENCED");
}

TEST_F(CoordinatorTest, AttemptNotYetThere_IsNotTakenForGone) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  const std::string id = CreateId();
  ASSERT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->attempts_size(), 1);  // and is lost on its way
  worker.report.set_sequence(worker.report.sequence() + 1);
  ASSERT_TRUE(coordinator->sessions().HandleReport(worker.report).ok());
  Pump();
  EXPECT_EQ(Shown(id), "STARTING@w1#1");
  EXPECT_EQ((*coordinator->queries().GetJob(id))->num_attempts(), 1);
  Exchange(worker);  // from here on the report reflects a directive that holds the attempt
  Exchange(worker);
  EXPECT_EQ(Shown(id).substr(0, 9), "STARTING@");
  EXPECT_EQ((*coordinator->queries().GetJob(id))->num_attempts(), 2) << "an attempt that is gone was not ended";
}

TEST_F(CoordinatorTest, RestartOfTheServer_KeepsAttemptsAndCountsLeasesAnew) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  clock.Advance(absl::Minutes(30));
  const int told = num_events;
  num_events = 0;
  StartServer();
  EXPECT_EQ(num_events, told) << "the history was not told again";
  Pass(absl::Seconds(14));
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  const v1::DirectiveId before = worker.report.reflected();
  const v1::WorkerDirective directive = Exchange(worker);
  EXPECT_EQ(directive.attempts(0).key().token(), key.token());
  EXPECT_GT(directive.id().number(), before.number());
  EXPECT_EQ(directive.id().epoch(), before.epoch());
}

TEST_F(CoordinatorTest, ReplacedAgent_IsRefused) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  ScriptedWorker successor("w1");
  successor.report.set_incarnation("a2");
  Exchange(successor);
  worker.report.set_sequence(99);
  EXPECT_EQ(ReasonOf(coordinator->sessions().HandleReport(worker.report).status()), "REPLACED");
}

TEST_F(CoordinatorTest, AgentOfAnotherIdentity_IsRefusedWhileTheWorkerIsNotLost) {
  ScriptedWorker holder("w1", "red");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(holder, id);
  ScriptedWorker other("w1", "blue");
  other.report.set_sequence(1);
  Pass(absl::Seconds(14));
  const absl::Status refused = coordinator->sessions().HandleReport(other.report).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(refused), "WORKER_NAME_IN_USE");
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("w1: red:/state, and this one is blue:/state"));
  // The holder continues, and so does its successor in the same state folder.
  EXPECT_EQ(Exchange(holder).attempts(0).key().token(), key.token());
  holder.report.set_incarnation("a2");
  EXPECT_EQ(Exchange(holder).attempts(0).key().token(), key.token());
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
}

TEST_F(CoordinatorTest, AgentOfAnotherIdentity_IsTakenOnceTheWorkerIsLostAndGivesTheNameBackAlike) {
  ScriptedWorker red("w1", "red");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(red, id);
  Pass(absl::Seconds(16));
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST");
  ScriptedWorker blue("w1", "blue");
  const v1::WorkerDirective directive = Exchange(blue);
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_NE(directive.attempts(0).key().token(), key.token()) << "two agents have one attempt";
  red.report.set_sequence(99);
  EXPECT_EQ(ReasonOf(coordinator->sessions().HandleReport(red.report).status()), "WORKER_NAME_IN_USE");
  Pass(absl::Seconds(16));
  Exchange(red);
  EXPECT_EQ(ReasonOf(coordinator->sessions().HandleReport(blue.report).status()), "WORKER_NAME_IN_USE");
}

TEST_F(CoordinatorTest, AgentOfAnotherIdentity_IsRefusedAfterARestartOfTheServerToo) {
  ScriptedWorker red("w1", "red");
  Exchange(red);
  StartServer();
  ScriptedWorker blue("w1", "blue");
  blue.report.set_sequence(1);
  EXPECT_EQ(ReasonOf(coordinator->sessions().HandleReport(blue.report).status()), "WORKER_NAME_IN_USE");
  Exchange(red);
}

TEST_F(CoordinatorTest, AgentOfAnotherIdentity_IsRefusedBeforeTheFirstsRegistrationIsOnDisk) {
  ScriptedWorker red("w1", "red");
  red.report.set_sequence(1);
  ASSERT_TRUE(coordinator->sessions().HandleReport(red.report).ok());
  ScriptedWorker blue("w1", "blue");
  blue.report.set_sequence(1);
  EXPECT_EQ(ReasonOf(coordinator->sessions().HandleReport(blue.report).status()), "WORKER_NAME_IN_USE");
  Pump();
  Exchange(red);
}

TEST_F(CoordinatorTest, Checkpoint_IsRecordedBeforeTheOutcomeAndUsedByTheNextAttempt) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  v1::AttemptReport& ended = worker.Has(key, Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::TRAINER_CRASHED);
  const v1::WorkerDirective directive = Exchange(worker);
  EXPECT_EQ(directive.acknowledged_checkpoints_size(), 1);
  EXPECT_EQ(directive.acknowledged_outcomes_size(), 1);
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).key().attempt(), 2);
  EXPECT_EQ(directive.attempts(0).start_from().step(), 40);
  EXPECT_EQ(coordinator->queries().FindAttempt(directive.attempts(0).key())->from_step, 40);
  EXPECT_TRUE(coordinator->queries().FindAttempt(key)->ended);
}

// The path is later given to workers to delete.
TEST_F(CoordinatorTest, CheckpointOfAnotherPathThanItsOwn_IsNeitherRecordedNorAcknowledged) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  v1::AttemptReport& running = worker.Has(key, Attempt::RUNNING);
  for (const std::string& path :
       {std::string(), std::string("j-other/1/step-40"), std::string("j-other"), std::string("/etc"), id,
        absl::StrCat(id, "/1"), absl::StrCat(id, "/2/step-40"), absl::StrCat(id, "/1/step-41"),
        absl::StrCat(id, "/1/step-040"), absl::StrCat(id, "/1/step-40/"), absl::StrCat(id, "/1/.step-40.tmp"),
        absl::StrCat(id, "/1/../../j-other"), absl::StrCat("./", id, "/1/step-40")}) {
    running.clear_checkpoints();
    *running.add_checkpoints() = CheckpointAt(id, 1, 40);
    running.mutable_checkpoints(0)->set_path(path);
    const v1::WorkerDirective directive = Exchange(worker);
    EXPECT_EQ(directive.acknowledged_checkpoints_size(), 0) << path;
    EXPECT_EQ(Shown(id), "RUNNING@w1#1") << path;
  }
  v1::AttemptReport& ended = worker.Has(key, Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt("j-other", 1, 50);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FINISHED, v1::SUCCEEDED_NORMALLY);
  Exchange(worker);
  EXPECT_EQ(Shown(id), "SUCCEEDED SUCCEEDED_NORMALLY ckpt=40") << "the rest of the report counts";
}

TEST_F(CoordinatorTest, DrainedWorker_IsLeftAndTheJobGoesElsewhere) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  absl::StatusOr<v1::Worker> drained;
  v1::DrainWorkerRequest request;
  request.set_name("w1");
  coordinator->sessions().DrainWorker(request, [&](absl::StatusOr<v1::Worker> view) { drained = std::move(view); });
  Pump();
  EXPECT_EQ(drained->state(), v1::Worker::DRAINING);
  const v1::WorkerDirective directive = *coordinator->sessions().CurrentDirective("w1", "a1");
  EXPECT_EQ(directive.attempts(0).desired(), Job::PAUSE);
  EXPECT_EQ(directive.attempts(0).desired_reason(), v1::WORKER_DRAINED);
  *worker.Has(key, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::LEFT, v1::WORKER_DRAINED);
  Exchange(worker);
  EXPECT_EQ(Shown(id), "QUEUED WORKER_DRAINED");
  ScriptedWorker other("w2");
  Exchange(other);
  EXPECT_EQ(Shown(id), "STARTING@w2#2");
}

TEST_F(CoordinatorTest, Deadline_EndsTheJob) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  request.mutable_spec()->mutable_deadline()->set_seconds(100);
  absl::StatusOr<JobPtr> result;
  coordinator->commands().CreateJob(request, Into(&result));
  Pump();
  const std::string id = (*result)->id();
  ScriptedWorker worker("w1");
  StartOn(worker, id);
  for (int i = 0; i < 11; ++i) {
    Exchange(worker);
    Pass(absl::Seconds(9));
  }
  Exchange(worker);
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  Pass(absl::Seconds(2));
  EXPECT_EQ(Shown(id), "CANCELLING@w1#1 DEADLINE");
}

TEST_F(CoordinatorTest, LocalCheckpointOutOfReach_StartsOverAfterTheWait) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  v1::Checkpoint local = CheckpointAt(id, 1, 40);
  local.set_local(true);
  *worker.Has(key, Attempt::RUNNING).add_checkpoints() = local;
  Exchange(worker);
  Pass(absl::Seconds(16));
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST ckpt=40");
  Pass(absl::Seconds(1));  // the wait begins
  Pass(absl::Minutes(9));
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST ckpt=40");
  Pass(absl::Minutes(2));
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST");
  EXPECT_EQ(started_over, "worker w1, which holds the checkpoint at step 40, did not come back");
}

// The job's only checkpoint is on the disk of the agent "red", which is lost then; "blue" comes under its name.
class TakenNameTest : public CoordinatorTest {
 protected:
  void SetUp() override {
    CoordinatorTest::SetUp();
    id = CreateId();
    const v1::AttemptKey key = StartOn(red, id);
    v1::Checkpoint local = CheckpointAt(id, 1, 40);
    local.set_local(true);
    *red.Has(key, Attempt::RUNNING).add_checkpoints() = local;
    Exchange(red);
    red.report.clear_attempts();
    Pass(absl::Seconds(16));
    Exchange(blue);
  }

  ScriptedWorker red{"w1", "red"};
  ScriptedWorker blue{"w1", "blue"};
  std::string id;
};

TEST_F(TakenNameTest, ALocalCheckpointIsNotGivenToTheNewAgentAndGoesOnUnderTheOldOne) {
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST ckpt=40");
  v1::ExplainJobRequest why;
  why.set_id(id);
  const auto explained = coordinator->queries().ExplainJob(why);
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_EQ(explained->reason(), v1::WAITING_FOR_CHECKPOINT_WORKER);
  EXPECT_THAT(explained->message(),
              testing::HasSubstr("checkpoint at step 40 is on worker w1, which was another agent then"));
  StartServer();
  Exchange(blue);
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST ckpt=40") << "a restart of the server forgot whose it is";
  Pass(absl::Seconds(16));
  const v1::WorkerDirective directive = Exchange(red);
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).start_from().step(), 40);
}

TEST_F(TakenNameTest, TheJobStartsOverUnderTheNewAgentAfterTheWait) {
  for (int minute = 0; minute < 10; ++minute) {
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(Exchange(blue).attempts_size(), 0) << "in minute " << minute;
      Pass(absl::Seconds(10));
    }
  }
  for (int i = 0; i < 2; ++i) {
    Exchange(blue);
    Pass(absl::Seconds(9));
  }
  const v1::WorkerDirective directive = Exchange(blue);
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_FALSE(directive.attempts(0).has_start_from());
  EXPECT_EQ(Shown(id), "STARTING@w1#2");
  EXPECT_EQ(started_over,
            "worker w1, which holds the checkpoint at step 40, did not come back: the name is another agent's now");
}

TEST_F(CoordinatorTest, LocalCheckpointOfAnAgentWithoutIdentity_IsAnyonesOfTheName) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  v1::Checkpoint local = CheckpointAt(id, 1, 40);
  local.set_local(true);
  *worker.Has(key, Attempt::RUNNING).add_checkpoints() = local;
  Exchange(worker);
  Pass(absl::Seconds(16));
  ScriptedWorker newer("w1", "red");
  EXPECT_EQ(Exchange(newer).attempts(0).start_from().step(), 40);
}

TEST_F(CoordinatorTest, EndedJobs_LeaveTheHotStateAndAreDeletedByAge) {
  const std::string id = CreateId();
  absl::StatusOr<JobPtr> result;
  v1::CancelJobRequest cancel;
  cancel.set_id(id);
  coordinator->commands().CancelJob(cancel, Into(&result));
  Pump();
  Pass(absl::Hours(2));
  EXPECT_EQ(ledger->Read([](const ClusterState& state) { return state.jobs().size(); }), 0u);
  EXPECT_EQ((*coordinator->queries().GetJob(id))->state(), Job::CANCELLED);
  EXPECT_EQ(coordinator->queries().ListJobs({})->jobs_size(), 1);
  Pass(absl::Hours(24));
  EXPECT_THAT(deleted, ElementsAre(id));
  EXPECT_EQ(coordinator->queries().GetJob(id).status().code(), absl::StatusCode::kNotFound);
}

// A job that ended with two checkpoints and is in the history table since.
class ArchivedCheckpointTest : public CoordinatorTest {
 protected:
  void SetUp() override {
    worker_retention = absl::ZeroDuration();  // the worker stays, with what it is to delete
    CoordinatorTest::SetUp();
    ScriptedWorker worker("w1");
    id = CreateId();
    v1::AttemptReport& ended = worker.Has(StartOn(worker, id), Attempt::ENDED);
    *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
    *ended.add_checkpoints() = CheckpointAt(id, 1, 50);
    *ended.mutable_outcome() = OutcomeOf(Outcome::FINISHED, v1::SUCCEEDED_NORMALLY);
    Exchange(worker);
    clock.Advance(absl::Hours(2));
    coordinator->Tick();
    Pump();
    ASSERT_EQ(Shown(id), "none");
  }
  void AskToDrop(int64_t step) {
    v1::DeleteCheckpointRequest request;
    request.set_id(id);
    request.set_attempt(1);
    request.set_step(step);
    coordinator->commands().DeleteCheckpoint(request,
                                             [this](absl::Status status) { answers.push_back(ReasonOf(status)); });
  }
  void AskToDelete() {
    v1::DeleteJobRequest request;
    request.set_id(id);
    coordinator->commands().DeleteJob(request, [this](absl::Status status) { answers.push_back(ReasonOf(status)); });
  }
  // "40 50", and "none" when the job is gone.
  std::string Kept() {
    v1::ListCheckpointsRequest request;
    request.set_id(id);
    const auto kept = coordinator->queries().ListCheckpoints(request);
    return !kept.ok() ? "none"
                      : absl::StrJoin(kept->checkpoints(), " ", [](std::string* out, const v1::Checkpoint& checkpoint) {
                          absl::StrAppend(out, checkpoint.step());
                        });
  }
  std::string Deletions() {
    return ledger->Read([](const ClusterState& state) {
      return absl::StrJoin(
          state.FindWorker("w1")->delete_checkpoints(), " ",
          [](std::string* out, const v1::CheckpointKey& key) { absl::StrAppend(out, "step-", key.step()); });
    });
  }

  std::string id;
  std::vector<std::string> answers;
};

// Whether a job answers alike before and after it leaves the memory: each order a client may give, on a finished job.
class OrdersToFinishedJobTest : public ArchivedCheckpointTest {
 protected:
  template <typename Request>
  std::string Answer(void (JobCommands::*order)(const Request&, JobDone), Request request) {
    request.set_id(id);
    absl::StatusOr<JobPtr> result;
    (coordinator->commands().*order)(request, Into(&result));
    Pump();
    return result.ok() ? Job::State_Name((*result)->state()) : ReasonOf(result.status());
  }
  std::string Answers() {
    v1::UpdateJobRequest update;
    update.mutable_update_mask()->add_paths("priority");
    update.set_priority(7);
    v1::CancelJobRequest stale;
    stale.set_etag("0");
    return absl::StrJoin(
        {Answer(&JobCommands::CancelJob, v1::CancelJobRequest()), Answer(&JobCommands::CancelJob, stale),
         Answer(&JobCommands::PauseJob, v1::PauseJobRequest()), Answer(&JobCommands::ResumeJob, v1::ResumeJobRequest()),
         Answer(&JobCommands::UpdateJob, update)},
        " ");
  }
};

TEST_F(OrdersToFinishedJobTest, AreAnsweredAlikeInMemoryAndInTheHistory) {
  constexpr char kExpected[] = "SUCCEEDED STALE_ETAG WRONG_STATE WRONG_STATE WRONG_STATE";
  EXPECT_EQ(Answers(), kExpected) << "archived";
  EXPECT_EQ(Shown(id), "none") << "back in the hot state";
  ScriptedWorker worker("w2");
  id = CreateId();
  *worker.Has(StartOn(worker, id), Attempt::ENDED).mutable_outcome() =
      OutcomeOf(Outcome::FINISHED, v1::SUCCEEDED_NORMALLY);
  Exchange(worker);
  EXPECT_EQ(Shown(id), "SUCCEEDED SUCCEEDED_NORMALLY");
  EXPECT_EQ(Answers(), kExpected) << "in memory";
  id = "j-mistyped";
  EXPECT_EQ(Answers(), "JOB_NOT_FOUND JOB_NOT_FOUND JOB_NOT_FOUND JOB_NOT_FOUND JOB_NOT_FOUND");
}

TEST_F(OrdersToFinishedJobTest, ARepeatedSubmitIsAnsweredFromTheHistory) {
  ScriptedWorker worker("w2");
  id = (*Create("r1"))->id();
  *worker.Has(StartOn(worker, id), Attempt::ENDED).mutable_outcome() =
      OutcomeOf(Outcome::FINISHED, v1::SUCCEEDED_NORMALLY);
  Exchange(worker);
  clock.Advance(absl::Hours(2));
  coordinator->Tick();
  Pump();
  ASSERT_EQ(Shown(id), "none");
  const absl::StatusOr<JobPtr> again = Create("r1");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->id(), id);
  EXPECT_EQ((*again)->state(), Job::SUCCEEDED);
}

TEST_F(ArchivedCheckpointTest, IsDeletedAndTheJobStaysArchived) {
  AskToDrop(40);
  Pump();
  EXPECT_THAT(answers, ElementsAre(""));
  EXPECT_EQ(Kept(), "50");
  EXPECT_EQ(Deletions(), "step-40");
  EXPECT_EQ(Shown(id), "none") << "back in the hot state";
  EXPECT_EQ((*coordinator->queries().GetJob(id))->state(), Job::SUCCEEDED);
  EXPECT_EQ(coordinator->queries().ListJobs({})->jobs_size(), 1);
  AskToDrop(40);
  Pump();
  EXPECT_EQ(answers.back(), "CHECKPOINT_NOT_FOUND");
}

TEST_F(ArchivedCheckpointTest, BothGoThoughAskedForAtOnce) {
  AskToDrop(40);
  AskToDrop(50);
  Pump();
  EXPECT_THAT(answers, ElementsAre("", ""));
  EXPECT_EQ(Kept(), "");
  EXPECT_EQ(Deletions(), "step-40 step-50");
}

TEST_F(ArchivedCheckpointTest, DoesNotBringBackAJobThatIsDeletedMeanwhile) {
  AskToDrop(40);
  AskToDelete();
  AskToDrop(50);
  Pump();
  EXPECT_THAT(answers, ElementsAre("", "", "JOB_NOT_FOUND"));
  EXPECT_EQ(Kept(), "none");
}

TEST_F(ArchivedCheckpointTest, IsGoneAfterARestartToo) {
  AskToDrop(40);
  Pump();
  const auto bytes = [this] {
    return ledger->Read([](const ClusterState& state) { return state.ToSnapshot(0).workers(0).SerializeAsString(); });
  };
  const std::string before = bytes();
  StartServer();
  EXPECT_EQ(bytes(), before);
  EXPECT_EQ(Kept(), "50");
  EXPECT_EQ(Shown(id), "none");
  clock.Advance(absl::Hours(30));
  coordinator->Tick();
  Pump();
  EXPECT_THAT(histories_deleted, ElementsAre(id)) << "its age counts from its end";
  EXPECT_EQ(Kept(), "50") << "a last checkpoint stays";
}

TEST_F(ArchivedCheckpointTest, TheCheckpointsOfAFinishedJobOutliveItsHistory) {
  Pass(absl::Hours(24));
  Pass(absl::Hours(24 * 365));
  EXPECT_THAT(histories_deleted, ElementsAre(id)) << "once";
  EXPECT_THAT(deleted, IsEmpty());
  EXPECT_TRUE((*coordinator->queries().GetJob(id))->history_deleted());
  EXPECT_EQ(Kept(), "40 50");
  EXPECT_EQ(Deletions(), "");
  AskToDrop(40);
  AskToDrop(50);
  Pump();
  Pass(absl::Minutes(1));
  EXPECT_THAT(deleted, ElementsAre(id)) << "nothing is left to keep the record for";
}

TEST_F(ArchivedCheckpointTest, GoByTheirAgeWhereTheOperatorSaysSo) {
  retention = {absl::Hours(24 * 10), absl::Hours(24 * 3)};
  StartServer();
  Pass(absl::Hours(24 * 2));
  EXPECT_EQ(Kept(), "40 50");
  Pass(absl::Hours(24 * 2));
  EXPECT_EQ(Kept(), "");
  EXPECT_EQ(Deletions(), "step-0") << "the job's whole folder";
  EXPECT_THAT(histories_deleted, IsEmpty());
  Pass(absl::Hours(24 * 7));
  EXPECT_THAT(deleted, ElementsAre(id));
}

TEST_F(ArchivedCheckpointTest, OfManyJobsThatStay_NoneKeepsOthersFromTheirEnd) {
  Pass(absl::Hours(25));
  ASSERT_THAT(histories_deleted, ElementsAre(id));
  std::vector<std::string> cancelled;
  for (int i = 0; i < 250; ++i) {
    cancelled.push_back(CreateId());
    v1::CancelJobRequest cancel;
    cancel.set_id(cancelled.back());
    coordinator->commands().CancelJob(cancel, [](absl::StatusOr<JobPtr>) {});
  }
  Pump();
  Pass(absl::Hours(2));
  for (int minute = 0; minute < 10; ++minute) {
    Pass(absl::Hours(24));
  }
  EXPECT_THAT(deleted, testing::UnorderedElementsAreArray(cancelled));
  EXPECT_EQ(Kept(), "40 50");
}

TEST_F(ArchivedCheckpointTest, ALeapOfTheWallClockDeletesNothing) {
  clock.SetNow(clock.Now() + absl::Hours(24 * 60));
  Pass(absl::Minutes(2));
  Pass(absl::Minutes(2));
  EXPECT_THAT(leaps, ElementsAre("1440h"));
  EXPECT_FALSE(coordinator->expiry().ClockIsSteady());
  EXPECT_THAT(histories_deleted, IsEmpty());
  clock.SetNow(clock.Now() - absl::Hours(24 * 60));
  Pass(absl::Minutes(2));
  Pass(absl::Hours(2));
  EXPECT_THAT(histories_deleted, IsEmpty()) << "its time has not come";
  clock.SetNow(clock.Now() + absl::Hours(24 * 60));
  for (int minute = 0; minute < 70; ++minute) {
    Pass(absl::Minutes(1));
  }
  EXPECT_THAT(histories_deleted, ElementsAre(id)) << "an hour of steady time is believed";
}

TEST_F(ArchivedCheckpointTest, AServerThatStartsWithAWrongClockDeletesNothingAtOnce) {
  clock.SetNow(clock.Now() + absl::Hours(24 * 60));
  StartServer();
  Pass(absl::Minutes(2));
  EXPECT_EQ(leaps.size(), 1u);
  EXPECT_THAT(histories_deleted, IsEmpty());
}

TEST_F(ArchivedCheckpointTest, ZeroIsNever) {
  retention = {absl::ZeroDuration(), absl::ZeroDuration()};
  StartServer();
  for (int year = 0; year < 20; ++year) {
    Pass(absl::Hours(24 * 365));
  }
  EXPECT_THAT(histories_deleted, IsEmpty());
  EXPECT_THAT(deleted, IsEmpty());
  EXPECT_EQ(Kept(), "40 50");
}

TEST_F(CoordinatorTest, AJobThatIsNeverArchivedStaysInTheHotStateUntilItsEnd) {
  archive_after = absl::ZeroDuration();
  StartServer();
  const std::string id = CreateId();
  v1::CancelJobRequest cancel;
  cancel.set_id(id);
  coordinator->commands().CancelJob(cancel, [](absl::StatusOr<JobPtr>) {});
  Pump();
  Pass(absl::Hours(23));
  EXPECT_EQ(Shown(id), "CANCELLED USER_CANCELLED");
  Pass(absl::Hours(2));
  EXPECT_THAT(deleted, ElementsAre(id));
}

TEST_F(CoordinatorTest, AJobSaysWhenWhatItLeavesIsDeleted) {
  const std::string id = CreateId();
  Job job = **coordinator->queries().GetJob(id);
  coordinator->queries().AddRetention(&job);
  EXPECT_EQ(job.retention().ShortDebugString(), "history { seconds: 86400 }");
  job.set_state(Job::SUCCEEDED);
  job.mutable_end_time()->set_seconds(1'000'000);
  coordinator->queries().AddRetention(&job);
  EXPECT_EQ(job.retention().history_delete_time().seconds(), 1'086'400);
  EXPECT_FALSE(job.retention().has_checkpoints_delete_time());
}

TEST_F(ArchivedCheckpointTest, StaysWhileAnotherJobIsToBeginWithIt) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  request.mutable_spec()->mutable_model()->mutable_initial_checkpoint()->set_job_id(id);
  absl::StatusOr<JobPtr> created;
  coordinator->commands().CreateJob(request, Into(&created));
  Pump();
  ASSERT_TRUE(created.ok()) << created.status();
  AskToDrop(50);
  AskToDrop(40);
  Pump();
  EXPECT_THAT(answers, ElementsAre("CHECKPOINT_IN_USE", ""));
  EXPECT_EQ(Kept(), "50");
}

// A spec of about `num_bytes`, which is not large for any other reason.
v1::JobSpec LargeSpec(size_t num_bytes) {
  v1::JobSpec spec = SmallSpec();
  for (size_t i = 0; i < num_bytes / 512; ++i) {
    spec.mutable_precision()->add_module_rules()->set_match(absl::StrCat("m", i, std::string(500, 'x')));
  }
  return spec;
}

TEST_F(CoordinatorTest, ARepeatOfAnOlderRequest_IsAnsweredWhateverIsAdmittedToday) {
  // As an older server took it, which did not look at unknown fields and admitted names that are refused today.
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

TEST_F(CoordinatorTest, SpecsAreBoundedTogether) {
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
  EXPECT_THAT(std::string(created.status().message()), testing::HasSubstr("together at most 1000"));
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

TEST_F(CoordinatorTest, ListJobs_EndsAPageBeforeItIsTooLargeAndTellsHowManyThereAre) {
  constexpr int kJobs = 40;
  for (int i = 0; i < kJobs; ++i) {
    internal::Update update;
    update.mutable_create_job()->set_id(absl::StrCat("j", i));
    *update.mutable_create_job()->mutable_spec() = LargeSpec(250 << 10);
    ledger->Commit(update, [](const absl::StatusOr<Applied>& applied) { ASSERT_TRUE(applied.ok()); });
  }
  Pump();
  const auto cancel = [this](const std::string& job) {
    v1::CancelJobRequest request;
    request.set_id(job);
    coordinator->commands().CancelJob(request, [](absl::StatusOr<JobPtr>) {});
  };
  for (int i = 0; i < kJobs / 2; ++i) {
    cancel(absl::StrCat("j", i));
  }
  Pump();
  Pass(absl::Hours(2));
  ASSERT_EQ(ledger->Read([](const ClusterState& state) { return state.jobs().size(); }), kJobs / 2);
  v1::ListJobsRequest request;
  request.set_page_size(500);
  std::vector<std::string> seen;
  int num_pages = 0;
  do {
    const auto page = coordinator->queries().ListJobs(request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->ByteSizeLong(), 4u << 20);
    EXPECT_GT(page->jobs_size(), 0);
    EXPECT_EQ(page->total_size(), num_pages == 0 ? kJobs : 0);
    for (const Job& job : page->jobs()) {
      seen.push_back(job.id());
    }
    request.set_page_token(page->next_page_token());
    ++num_pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(seen.size(), kJobs);
  EXPECT_EQ(seen.front(), "j39");
  EXPECT_EQ(seen.back(), "j0");
  EXPECT_GE(num_pages, 3);
  v1::ListJobsRequest filtered;
  filtered.set_filter("state=CANCELLED");
  filtered.set_page_size(3);
  EXPECT_EQ(coordinator->queries().ListJobs(filtered)->total_size(), kJobs / 2);
  filtered.set_filter("id=j7");
  EXPECT_EQ(coordinator->queries().ListJobs(filtered)->total_size(), 1);
}

TEST_F(CoordinatorTest, ListWorkersAndExplainJobStayBelowWhatClientsTake) {
  constexpr int kWorkers = 80;
  for (int i = 0; i < kWorkers; ++i) {
    ScriptedWorker worker(absl::StrCat("w", 100 + i));
    for (int device = 0; device < 100; ++device) {
      v1::Device& added = *worker.report.add_devices();
      added.set_id(absl::StrCat("gpu", device, "-", std::string(240, 'd')));
      added.set_name(std::string(250, 'n'));
      added.set_kind(v1::Device::GPU);
    }
    Exchange(worker);
  }
  v1::ListWorkersRequest request;
  request.set_page_size(500);
  std::set<std::string> seen;
  do {
    const auto page = coordinator->sessions().ListWorkers(request);
    EXPECT_LE(page->ByteSizeLong(), 4u << 20);
    EXPECT_EQ(page->total_size(), request.page_token().empty() ? kWorkers : 0);
    for (const v1::Worker& worker : page->workers()) {
      seen.insert(worker.name());
    }
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(seen.size(), kWorkers);
  v1::CreateJobRequest create;
  *create.mutable_spec() = SmallSpec();
  create.mutable_spec()->mutable_resources()->set_worker("none");
  absl::StatusOr<JobPtr> created;
  coordinator->commands().CreateJob(create, Into(&created));
  Pump();
  ASSERT_TRUE(created.ok()) << created.status();
  v1::ExplainJobRequest explain;
  explain.set_id((*created)->id());
  const auto explained = coordinator->queries().ExplainJob(explain);
  EXPECT_LE(explained->ByteSizeLong(), 4u << 20);
  EXPECT_GT(explained->devices_size(), 100);
  EXPECT_EQ(explained->num_devices(), kWorkers * 101);
}

TEST_F(CoordinatorTest, AReportThatIsLargerThanAnyAgentMakesItIsRefusedByField) {
  const auto refusal = [this](const std::function<void(v1::WorkerReport*)>& spoil) {
    ScriptedWorker worker("w1");
    worker.report.set_sequence(1);
    spoil(&worker.report);
    const auto answer = coordinator->sessions().HandleReport(worker.report);
    return answer.ok() ? std::string("taken") : ViolationsOf(answer.status())[0].field;
  };
  const std::string huge(1 << 20, 'x');
  EXPECT_EQ(refusal([&](v1::WorkerReport* report) { report->set_version(huge); }), "version");
  EXPECT_EQ(refusal([&](v1::WorkerReport* report) { report->add_attempts()->set_precision(huge); }),
            "attempts[0].precision");
  EXPECT_EQ(refusal([&](v1::WorkerReport* report) { report->add_attempts()->add_checkpoints()->set_state_hash(huge); }),
            "attempts[0].checkpoints[0].state_hash");
  EXPECT_EQ(refusal([](v1::WorkerReport*) {}), "taken");
}

TEST_F(CoordinatorTest, ALongMessageOfAnOutcomeIsCut) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  v1::AttemptReport& ended = worker.Has(StartOn(worker, id), Attempt::ENDED);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::DATA_ERROR);
  ended.mutable_outcome()->set_message(std::string(1 << 20, 'x'));
  Exchange(worker);
  const Job job = **coordinator->queries().GetJob(id);
  EXPECT_EQ(job.state(), Job::FAILED);
  EXPECT_LE(job.ByteSizeLong(), 16u << 10);
  EXPECT_THAT(job.message(), testing::EndsWith("xxx..."));
}

TEST_F(CoordinatorTest, ListJobs_FiltersAndPagesOverBothTables) {
  std::vector<std::string> ids;
  for (int i = 0; i < 7; ++i) {
    ids.push_back((*Create("", i % 2 == 0 ? "even" : "odd"))->id());
  }
  absl::StatusOr<JobPtr> result;
  v1::CancelJobRequest cancel;
  cancel.set_id(ids[2]);
  coordinator->commands().CancelJob(cancel, Into(&result));
  Pump();
  Pass(absl::Hours(2));
  v1::ListJobsRequest request;
  request.set_page_size(2);
  std::vector<std::string> seen;
  do {
    const auto page = coordinator->queries().ListJobs(request);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const Job& job : page->jobs()) {
      seen.push_back(job.id());
    }
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(seen, testing::ElementsAreArray(ids.rbegin(), ids.rend()));
  v1::ListJobsRequest filtered;
  filtered.set_filter("name=even AND state=QUEUED");
  EXPECT_EQ(coordinator->queries().ListJobs(filtered)->jobs_size(), 3);
  filtered.set_filter("colour=red");
  EXPECT_EQ(coordinator->queries().ListJobs(filtered).status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* open : {"state=QUEUED AND", "AND state=QUEUED", "name=even AND  AND state=QUEUED", "AND", " "}) {
    filtered.set_filter(open);
    EXPECT_THAT(std::string(coordinator->queries().ListJobs(filtered).status().message()),
                testing::HasSubstr("filter: has no term where one is wanted; terms are state=, name="))
        << open;
  }
  filtered.set_filter(" name=even  AND state=QUEUED ");
  EXPECT_EQ(coordinator->queries().ListJobs(filtered)->jobs_size(), 3);
  filtered.set_filter("state=RUNING");
  EXPECT_THAT(std::string(coordinator->queries().ListJobs(filtered).status().message()),
              testing::EndsWith("has the state \"RUNING\"; states are QUEUED, STARTING, RUNNING, PAUSING, PAUSED, "
                                "CANCELLING, SUCCEEDED, FAILED, CANCELLED"));
}

TEST_F(CoordinatorTest, CloneOfAnEndedJob_GoesOnFromItsCheckpoint) {
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
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::NONFINITE_LOSS);
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

TEST_F(CoordinatorTest, CloneOfASucceededJob_BeginsAnewAndDoesNotGoOn) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  v1::AttemptReport& ended = worker.Has(StartOn(worker, id), Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FINISHED, v1::SUCCEEDED_NORMALLY);
  Exchange(worker);
  v1::CloneJobRequest request;
  request.set_id(id);
  request.set_from_last_checkpoint(true);
  absl::StatusOr<JobPtr> clone;
  coordinator->commands().CloneJob(request, Into(&clone));
  EXPECT_EQ(ReasonOf(clone.status()), "WRONG_STATE");
  EXPECT_EQ(MetadataOf(clone.status()).at("state"), "SUCCEEDED");
  EXPECT_THAT(std::string(clone.status().message()), testing::HasSubstr("nothing is left to go on with"));
  request.set_from_last_checkpoint(false);
  coordinator->commands().CloneJob(request, Into(&clone));
  Pump();
  EXPECT_TRUE(clone.ok()) << clone.status();
}

TEST_F(CoordinatorTest, CloneOfACloneThatNeverBegan_KeepsTheCheckpointOfTheFirst) {
  ScriptedWorker worker("w1");
  const std::string first = CreateId();
  v1::AttemptReport& ended = worker.Has(StartOn(worker, first), Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(first, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::NONFINITE_LOSS);
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

// A job that ended with a checkpoint, and a clone of it that ended before it had one of its own.
class CloneOfACloneTest : public CoordinatorTest {
 protected:
  void SetUp() override {
    CoordinatorTest::SetUp();
    ScriptedWorker worker("w1");
    first = CreateId();
    v1::AttemptReport& ended = worker.Has(StartOn(worker, first), Attempt::ENDED);
    *ended.add_checkpoints() = CheckpointAt(first, 1, 40);
    *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::NONFINITE_LOSS);
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
  EXPECT_THAT(std::string(clone.status().message()), testing::HasSubstr("a clone can begin anew"));
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

// Both were asked for before either was applied.
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

// Jobs name an upload that is there, or is not.
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
  EXPECT_EQ(coordinator->queries().LiveArtifacts(), (std::map<std::string, std::string>{{digest, (*job)->id()}}));
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

// The job `first` of w1 ended with a local checkpoint at step 40; others begin with it.
class InitialCheckpointTest : public CoordinatorTest {
 protected:
  void SetUp() override {
    CoordinatorTest::SetUp();
    first = CreateId();
    v1::AttemptReport& ended = w1.Has(StartOn(w1, first), Attempt::ENDED);
    v1::Checkpoint local = CheckpointAt(first, 1, 40);
    local.set_local(true);
    *ended.add_checkpoints() = local;
    *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::NONFINITE_LOSS);
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
  EXPECT_EQ(status.message(), "model.initial_checkpoint.job_id: there is no job j-nowhere");
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
      OutcomeOf(Outcome::LEFT, v1::USER_CANCELLED);
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
            absl::StrCat("job ", id, ": the checkpoint ", first,
                         "/1/step-40, with which the job begins, is on worker w1 (w2/cpu)"));
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
  Pass(absl::Seconds(1));  // the wait begins
  Pass(absl::Minutes(9));
  Pass(absl::Minutes(2));
  EXPECT_EQ(started_over, "worker w1, which holds the checkpoint at step 8, did not come back");
  const v1::WorkerDirective directive = Exchange(w1);
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).start_from().path(), absl::StrCat(first, "/1/step-40"));
}

TEST_F(CoordinatorTest, LossScaleRule_IsSentWithEveryValueFilledIn) {
  ScriptedWorker worker("w1");
  const std::string id = CreateIdOf("fp16");
  const v1::AttemptKey key = StartOn(worker, id);
  const v1::WorkerDirective directive = *coordinator->CurrentDirective("w1", "a1");
  const v1::DynamicLossScale& rule = directive.attempts(0).loss_scale().dynamic();
  EXPECT_EQ(rule.initial(), 65536);
  EXPECT_EQ(rule.growth_factor(), 2);
  EXPECT_EQ(rule.backoff_factor(), 0.5);
  EXPECT_EQ(rule.growth_interval(), 2000);
  EXPECT_EQ(rule.hysteresis(), 1);
  EXPECT_EQ(rule.at_floor(), v1::DynamicLossScale::CLAMP);
  EXPECT_NE(rule.hysteresis_refill(), v1::DynamicLossScale::HYSTERESIS_REFILL_UNSPECIFIED);

  v1::AttemptReport& ended = worker.Has(key, Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::NONFINITE_LOSS);
  Exchange(worker);
  v1::CloneJobRequest request;
  request.set_id(id);
  request.set_from_last_checkpoint(true);
  absl::StatusOr<JobPtr> clone;
  coordinator->CloneJob(request, Into(&clone));
  Pump();
  ASSERT_TRUE(clone.ok()) << clone.status();
  const auto record = ledger->Read([&](const ClusterState& state) { return state.FindJob((*clone)->id()); });
  ASSERT_EQ(record->loss_scales_size(), 1);
  EXPECT_EQ(record->loss_scales(0).precision(), "fp16");
}

TEST_F(CoordinatorTest, LossScaleOrder_IsPassedOnWithItsNumber) {
  ScriptedWorker worker("w1");
  const std::string id = CreateIdOf("fp16");
  StartOn(worker, id);
  v1::UpdateJobRequest request;
  request.set_id(id);
  request.mutable_update_mask()->add_paths("loss_scale_order");
  absl::StatusOr<JobPtr> result;
  coordinator->commands().UpdateJob(request, Into(&result));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  request.mutable_loss_scale_order()->set_scale(1024);
  coordinator->commands().UpdateJob(request, Into(&result));
  Pump();
  ASSERT_TRUE(result.ok());
  const v1::WorkerDirective directive = *coordinator->sessions().CurrentDirective("w1", "a1");
  EXPECT_EQ(directive.attempts(0).loss_scale_order().scale(), 1024);
  EXPECT_EQ(directive.attempts(0).loss_scale_order_number(), 1u);
  EXPECT_FALSE(directive.attempts(0).has_earlier_loss_scale_order());
}

TEST_F(CoordinatorTest, LossScaleOrder_LeavesInForceWhatItDoesNotSet) {
  ScriptedWorker worker("w1");
  const std::string id = CreateIdOf("fp16");
  StartOn(worker, id);
  // "<number>: <fields>" of the earlier order, where there is one, and of the newest.
  const auto after = [&](std::optional<double> scale, std::optional<int> growth_interval) {
    v1::UpdateJobRequest request;
    request.set_id(id);
    request.mutable_update_mask()->add_paths("loss_scale_order");
    if (scale.has_value()) request.mutable_loss_scale_order()->set_scale(*scale);
    if (growth_interval.has_value()) request.mutable_loss_scale_order()->set_growth_interval(*growth_interval);
    absl::StatusOr<JobPtr> result;
    coordinator->commands().UpdateJob(request, Into(&result));
    Pump();
    EXPECT_TRUE(result.ok());
    const v1::AttemptDirective attempt = coordinator->sessions().CurrentDirective("w1", "a1")->attempts(0);
    const v1::NumberedLossScaleOrder& earlier = attempt.earlier_loss_scale_order();
    return absl::StrCat(attempt.has_earlier_loss_scale_order()
                            ? absl::StrCat(earlier.number(), ": ", earlier.order().ShortDebugString(), ", ")
                            : "",
                        attempt.loss_scale_order_number(), ": ", attempt.loss_scale_order().ShortDebugString());
  };
  EXPECT_EQ(after(1024, std::nullopt), "1: scale: 1024");
  EXPECT_EQ(after(std::nullopt, 500), "1: scale: 1024, 2: growth_interval: 500");
  EXPECT_EQ(after(std::nullopt, 600), "1: scale: 1024, 3: growth_interval: 600");
  EXPECT_EQ(after(64, std::nullopt), "3: growth_interval: 600, 4: scale: 64");
  EXPECT_EQ(after(32, 700), "5: scale: 32 growth_interval: 700");
  EXPECT_EQ(after(16, std::nullopt), "5: growth_interval: 700, 6: scale: 16");
}

TEST_F(CoordinatorTest, LossScaleOrder_IsRefusedWhereNoLossIsScaled) {
  const auto order = [this](const std::string& id) {
    v1::UpdateJobRequest request;
    request.set_id(id);
    request.mutable_update_mask()->add_paths("loss_scale_order");
    request.mutable_loss_scale_order()->set_scale(1024);
    absl::StatusOr<JobPtr> result;
    coordinator->commands().UpdateJob(request, Into(&result));
    Pump();
    return result.ok() ? "OK" : ReasonOf(result.status());
  };
  EXPECT_EQ(order(CreateIdOf("bf16")), "LOSS_SCALE_OFF");
  EXPECT_EQ(order(CreateIdOf("fp16")), "OK");
  EXPECT_EQ(order("j-none"), "JOB_NOT_FOUND");
  const std::string ended = CreateIdOf("bf16");
  v1::CancelJobRequest cancel;
  cancel.set_id(ended);
  absl::StatusOr<JobPtr> cancelled;
  coordinator->commands().CancelJob(cancel, Into(&cancelled));
  Pump();
  EXPECT_EQ(order(ended), "WRONG_STATE") << "that it has ended says more";
}

TEST_F(CoordinatorTest, LossScaleOrder_BeyondFloorOrCapIsRefusedAndBothAreNamed) {
  const auto order = [this](const std::string& id, double scale) {
    v1::UpdateJobRequest request;
    request.set_id(id);
    request.mutable_update_mask()->add_paths("loss_scale_order");
    request.mutable_loss_scale_order()->set_scale(scale);
    absl::StatusOr<JobPtr> result;
    coordinator->commands().UpdateJob(request, Into(&result));
    Pump();
    return result.ok() ? "OK" : std::string(result.status().message());
  };
  const std::string id = CreateIdOf("fp16");
  EXPECT_EQ(order(id, 0x1p24), "OK");
  EXPECT_EQ(order(id, 1), "OK");
  EXPECT_THAT(order(id, 1e30),
              testing::HasSubstr("loss_scale_order.scale: is 1e+30; must be from 1, the floor, to 16777216, the "
                                 "cap of fp16"));
  EXPECT_THAT(order(id, 0.5), testing::HasSubstr("is 0.5; must be from 1, the floor"));
  EXPECT_EQ(order(CreateIdOf("torch-amp-fp16"), 1e30), "OK") << "its cap is what fp32 can hold";
  EXPECT_EQ(order(CreateIdOf("auto"), 1e30), "OK") << "what the device's choice allows, the trainer knows";
}

TEST_F(CoordinatorTest, LossScaleOrder_OfAPrecisionThatADeviceChoosesIsRefusedOnceItChose) {
  v1::UpdateJobRequest request;
  request.set_id(CreateIdOf("auto"));
  request.mutable_update_mask()->add_paths("loss_scale_order");
  request.mutable_loss_scale_order()->set_scale(1024);
  absl::StatusOr<JobPtr> result;
  coordinator->commands().UpdateJob(request, Into(&result));
  Pump();
  EXPECT_TRUE(result.ok()) << result.status();
  ScriptedWorker worker("w1");
  StartOn(worker, request.id());
  EXPECT_EQ(PrecisionOf(request.id()), "fp32");
  coordinator->commands().UpdateJob(request, Into(&result));
  Pump();
  EXPECT_EQ(ReasonOf(result.status()), "LOSS_SCALE_OFF");
}

TEST_F(CoordinatorTest, RequestForGradients_IsPassedOnWithItsNumberToTheAttemptThatRuns) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  v1::UpdateJobRequest request;
  request.set_id(id);
  request.mutable_update_mask()->add_paths("sample_gradients");
  request.set_sample_gradients(true);
  absl::StatusOr<JobPtr> result;
  coordinator->commands().UpdateJob(request, Into(&result));
  Pump();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition) << "nothing runs yet";
  const v1::AttemptKey key = StartOn(worker, id);
  EXPECT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->attempts(0).gradient_request_number(), 0u);
  for (const uint64_t number : {1, 2}) {
    coordinator->commands().UpdateJob(request, Into(&result));
    Pump();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->attempts(0).gradient_request_number(), number);
  }
  StartServer();
  EXPECT_EQ(Exchange(worker).attempts(0).gradient_request_number(), 2u) << "it is durable";
  v1::AttemptReport& ended = worker.Has(key, Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::TRAINER_CRASHED);
  const v1::WorkerDirective next = Exchange(worker);
  ASSERT_EQ(next.attempts_size(), 1);
  EXPECT_EQ(next.attempts(0).key().attempt(), 2);
  EXPECT_EQ(next.attempts(0).gradient_request_number(), 0u) << "the next attempt was not asked";
}

TEST_F(CoordinatorTest, TotalStepsThatTheTrainerCounted_AreKeptOnTheAttempt) {
  ScriptedWorker worker("w1");
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  request.mutable_spec()->mutable_train()->clear_steps();
  request.mutable_spec()->mutable_train()->set_epochs(3);
  absl::StatusOr<JobPtr> job;
  coordinator->commands().CreateJob(request, Into(&job));
  Pump();
  const std::string id = (*job)->id();
  const v1::AttemptKey key = Exchange(worker).attempts(0).key();
  worker.Has(key, Attempt::STARTING);
  Exchange(worker);
  EXPECT_EQ(coordinator->queries().GetJob(id).value()->attempts(0).total_steps(), 0);
  worker.Has(key, Attempt::RUNNING).set_total_steps(1875);
  Exchange(worker);
  EXPECT_EQ(coordinator->queries().GetJob(id).value()->attempts(0).total_steps(), 1875);
  worker.Has(key, Attempt::SUSPENDED);  // told by an agent that has just found its trainer
  Exchange(worker);
  StartServer();
  EXPECT_EQ(coordinator->queries().GetJob(id).value()->attempts(0).total_steps(), 1875);
}

TEST_F(CoordinatorTest, PrecisionRaisedWhileRunning_IsTheAttemptsFromThenOnAndTheJobStaysAsItIs) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = Exchange(worker).attempts(0).key();
  v1::AttemptReport& running = worker.Has(key, Attempt::RUNNING);
  running.set_precision("fp16");
  running.set_emulated(true);
  Exchange(worker);
  EXPECT_EQ(PrecisionOf(id), "fp16 emulated");
  running.set_precision("bf16");
  running.set_emulated(false);
  const int told = num_events;
  Exchange(worker);
  EXPECT_EQ(PrecisionOf(id), "bf16");
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  EXPECT_EQ(num_events, told) << "the trainer tells of it";
  worker.Has(key, Attempt::SUSPENDED);  // told by an agent that has just found its trainer
  Exchange(worker);
  StartServer();
  EXPECT_EQ(PrecisionOf(id), "bf16");
}

TEST_F(CoordinatorTest, PrecisionToldFirstWithTheOutcome_IsTheAttempts) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  v1::AttemptReport& ended = worker.Has(key, Attempt::ENDED);
  ended.set_precision("bf16");
  ended.set_total_steps(kSmallSteps);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FINISHED, v1::SUCCEEDED_NORMALLY);
  Exchange(worker);
  EXPECT_EQ(Shown(id), "SUCCEEDED SUCCEEDED_NORMALLY");
  EXPECT_EQ(PrecisionOf(id), "bf16");
  EXPECT_EQ(coordinator->queries().GetJob(id).value()->attempts(0).total_steps(), kSmallSteps);
}

TEST_F(CoordinatorTest, CheckpointsToDelete_AreToldUntilTheWorkerReflectsIt) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  v1::AttemptReport& running = worker.Has(key, Attempt::RUNNING);
  for (int64_t step : {1, 2, 3}) {
    *running.add_checkpoints() = CheckpointAt(id, 1, step);
  }
  EXPECT_EQ(Exchange(worker).delete_checkpoints_size(), 1);
  EXPECT_EQ(Exchange(worker).delete_checkpoints_size(), 0);
}

// A copy of the state folder has the id, and another place.
TEST_F(CoordinatorTest, CopyOfAnAgentElsewhere_IsRefusedAndShownAndTheFirstGoesOn) {
  ScriptedWorker first("w1", "red");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(first, id);
  ScriptedWorker copy("w1", "red");
  copy.report.set_incarnation("copy");
  copy.report.mutable_agent()->set_place("red:/copy");
  for (int i = 1; i <= 3; ++i) {
    copy.report.set_sequence(static_cast<uint64_t>(i));
    const absl::Status refused = coordinator->sessions().HandleReport(copy.report).status();
    EXPECT_EQ(ReasonOf(refused), "WORKER_NAME_IN_USE");
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("was copied or moved: the agent at red:/state"));
  }
  EXPECT_FALSE(coordinator->sessions().CurrentDirective("w1", "copy").ok()) << "it holds tokens";
  EXPECT_EQ(Exchange(first).attempts(0).key().token(), key.token());
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  EXPECT_EQ(troubles.size(), 1u) << absl::StrJoin(troubles, "\n");
  EXPECT_THAT(ViewOf("w1").message(), testing::HasSubstr("red:/copy is refused"));
  for (int i = 0; i < 4; ++i) {
    Pass(absl::Seconds(5));
    Exchange(first);
  }
  EXPECT_EQ(ViewOf("w1").message(), "") << "it is long gone";
}

TEST_F(CoordinatorTest, MovedStateFolder_IsTakenOnceTheWorkerIsLost) {
  ScriptedWorker before("w1", "red");
  Exchange(before);
  ScriptedWorker after("w1", "red");
  after.report.set_incarnation("later");
  after.report.mutable_agent()->set_place("red:/moved");
  after.report.set_sequence(1);
  EXPECT_FALSE(coordinator->sessions().HandleReport(after.report).ok());
  Pass(absl::Seconds(16));
  Exchange(after);
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::READY);
}

// A copy at the same place, as of a container, can't be told from a restart: the one before is told, and yields.
TEST_F(CoordinatorTest, DisplacedAgentThatYields_IsTakenOnceTheOtherOneIsSilent) {
  ScriptedWorker first("w1", "red");
  Exchange(first);
  ScriptedWorker copy("w1", "red");
  copy.report.set_incarnation("copy");
  Exchange(copy);
  first.report.set_sequence(9);
  EXPECT_EQ(ReasonOf(coordinator->sessions().HandleReport(first.report).status()), "REPLACED");
  EXPECT_THAT(ViewOf("w1").message(), testing::HasSubstr("another agent has come since"));
  first.report.set_incarnation("again");
  first.report.set_yields(true);
  for (int i = 0; i < 4; ++i) {
    Pass(absl::Seconds(5));
    Exchange(copy);
    EXPECT_EQ(ReasonOf(coordinator->sessions().HandleReport(first.report).status()), "REPLACED")
        << "it would take turns";
  }
  Pass(absl::Seconds(16));
  Exchange(first);
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::READY);
}

// The stream of the agent that had the name before is still there when the next one has been taken.
TEST_F(CoordinatorTest, Tokens_AreForTheAgentThatHasTheNameAlone) {
  ScriptedWorker red("w1", "red");
  Exchange(red);
  Pass(absl::Seconds(16));
  ScriptedWorker blue("w1", "blue");
  Exchange(blue);
  CreateId();
  EXPECT_EQ(coordinator->sessions().CurrentDirective("w1", "bluea1")->attempts_size(), 1);
  EXPECT_EQ(ReasonOf(coordinator->sessions().CurrentDirective("w1", "reda1").status()), "WORKER_NOT_FOUND");
  EXPECT_EQ(ReasonOf(coordinator->sessions().CurrentDirective("w1", "").status()), "WORKER_NOT_FOUND");
}

TEST_F(CoordinatorTest, IdOfAnAgent_IsInNoAnswer) {
  const std::string secret = "s3cretagentid";
  ScriptedWorker worker("w1", secret);
  worker.report.mutable_agent()->set_place("host:/state");
  const std::string id = CreateId();
  v1::AttemptReport& running = worker.Has(StartOn(worker, id), Attempt::RUNNING);
  v1::Checkpoint local = CheckpointAt(id, 1, 40);
  local.set_local(true);
  *running.add_checkpoints() = local;
  const v1::WorkerDirective directive = Exchange(worker);
  v1::ListCheckpointsRequest request;
  request.set_id(id);
  const v1::ListCheckpointsResponse checkpoints = coordinator->queries().ListCheckpoints(request).value();
  ASSERT_EQ(checkpoints.checkpoints_size(), 1);
  EXPECT_NE(checkpoints.checkpoints(0).agent(), "");
  v1::ExplainJobRequest explain;
  explain.set_id(id);
  ScriptedWorker other("w1", "blue");
  other.report.set_sequence(1);
  for (const std::string& answer :
       {checkpoints.DebugString(), coordinator->queries().GetJob(id).value()->DebugString(), ViewOf("w1").DebugString(),
        directive.DebugString(), coordinator->queries().ExplainJob(explain).value().DebugString(),
        coordinator->sessions().HandleReport(other.report).status().ToString()}) {
    EXPECT_THAT(answer, testing::Not(testing::HasSubstr(secret)));
  }
}

TEST_F(CoordinatorTest, WorkersWhoseReportCantBe_AreRefusedByTheField) {
  const std::pair<std::string, std::function<void(v1::WorkerReport&)>> cases[] = {
      {"worker", [](v1::WorkerReport& report) { report.set_worker("a b"); }},
      {"worker", [](v1::WorkerReport& report) { report.set_worker("w\n"); }},
      {"worker", [](v1::WorkerReport& report) { report.set_worker(std::string(300, 'w')); }},
      {"incarnation", [](v1::WorkerReport& report) { report.clear_incarnation(); }},
      {"version", [](v1::WorkerReport& report) { report.set_version(std::string(1000, 'v')); }},
      {"devices[1].id", [](v1::WorkerReport& report) { *report.add_devices() = report.devices(0); }},
      {"devices[0]", [](v1::WorkerReport& report) { report.mutable_devices(0)->set_memory_total_bytes(-1); }},
      {"devices[0].name", [](v1::WorkerReport& report) { report.mutable_devices(0)->set_name(std::string(999, 'n')); }},
      {"data_roots", [](v1::WorkerReport& report) { report.add_data_roots(std::string(300, 'r')); }}};
  for (const auto& [field, spoil] : cases) {
    ScriptedWorker worker("w1");
    worker.report.set_sequence(1);
    spoil(worker.report);
    const absl::Status refused = coordinator->sessions().HandleReport(worker.report).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << field;
    ASSERT_FALSE(ViolationsOf(refused).empty()) << field;
    EXPECT_EQ(ViolationsOf(refused)[0].field, field);
  }
}

// What a worker tells of an attempt that can't be is left out, told once, and ends no stream.
TEST_F(CoordinatorTest, CheckpointThatCantBe_IsNotRecordedAndTheWorkerGoesOn) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  const std::function<void(v1::Checkpoint&)> spoilers[] = {
      [&](v1::Checkpoint& it) { it = CheckpointAt(id, 1, kSmallSteps + 1); },
      [&](v1::Checkpoint& it) { it = CheckpointAt(id, 1, -1); },
      [](v1::Checkpoint& it) { it.set_manifest_sha256("deadbeef"); },
      [](v1::Checkpoint& it) { it.set_state_hash(std::string(64, 'G')); },
      [](v1::Checkpoint& it) { it.set_size_bytes(-5); }};
  for (const auto& spoil : spoilers) {
    v1::Checkpoint& checkpoint = *worker.Has(key, Attempt::RUNNING).add_checkpoints();
    checkpoint = CheckpointAt(id, 1, 40);
    spoil(checkpoint);
    EXPECT_EQ(Exchange(worker).acknowledged_checkpoints_size(), 0) << checkpoint.ShortDebugString();
    EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  }
  EXPECT_EQ(troubles.size(), 4u) << absl::StrJoin(troubles, "\n");  // two are no SHA-256
  *worker.Has(key, Attempt::RUNNING).add_checkpoints() = CheckpointAt(id, 1, 40);
  EXPECT_EQ(Exchange(worker).acknowledged_checkpoints_size(), 1);
}

class ImpossibleEnd : public CoordinatorTest,
                      public testing::WithParamInterface<std::pair<const char*, std::function<void(Outcome&)>>> {};

INSTANTIATE_TEST_SUITE_P(
    Each, ImpossibleEnd,
    testing::Values(
        std::pair{"Early", [](Outcome& it) { it.set_last_step(kSmallSteps - 1); }},
        std::pair{"Late", [](Outcome& it) { it.set_last_step(kSmallSteps + 1); }},
        std::pair{"Negative", [](Outcome& it) { it.set_last_step(-1); }},
        std::pair{"EndlessTelemetry", [](Outcome& it) { it.set_last_sequence(~uint64_t{0}); }},
        std::pair{"InfiniteLoss", [](Outcome& it) { it.mutable_final_metrics()->set_train_loss(INFINITY); }},
        std::pair{"NoEvalLoss", [](Outcome& it) { it.mutable_final_metrics()->set_eval_loss(NAN); }},
        std::pair{"MoreThanAllRight", [](Outcome& it) { it.mutable_final_metrics()->set_eval_accuracy(1.5); }},
        std::pair{"NegativeSpeed", [](Outcome& it) { it.mutable_final_metrics()->set_steps_per_second(-1); }},
        std::pair{"InfiniteScale", [](Outcome& it) { it.mutable_final_metrics()->set_final_loss_scale(INFINITY); }},
        std::pair{"NegativeMemory", [](Outcome& it) { it.mutable_final_metrics()->set_peak_memory_bytes(-1); }},
        std::pair{"NoHash", [](Outcome& it) { it.mutable_final_metrics()->set_state_hash("../../etc"); }}),
    [](const auto& info) { return info.param.first; });

TEST_P(ImpossibleEnd, IsNoSuccess_AndIsAcknowledged) {
  ScriptedWorker worker("w1");
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  request.mutable_spec()->set_max_retries(0);
  absl::StatusOr<JobPtr> job;
  coordinator->commands().CreateJob(request, Into(&job));
  Pump();
  const std::string id = (*job)->id();
  Outcome& outcome = *worker.Has(StartOn(worker, id), Attempt::ENDED).mutable_outcome();
  outcome = OutcomeOf(Outcome::FINISHED, v1::SUCCEEDED_NORMALLY);
  GetParam().second(outcome);
  EXPECT_EQ(Exchange(worker).acknowledged_outcomes_size(), 1);
  const JobPtr ended = coordinator->queries().GetJob(id).value();
  EXPECT_EQ(ended->state(), Job::FAILED);
  EXPECT_THAT(ended->message(), testing::HasSubstr("the worker reported an end that can't be: "));
  EXPECT_LT(ended->ByteSizeLong(), 10'000u);
  EXPECT_EQ(troubles.size(), 1u);
}

TEST_F(CoordinatorTest, HonestEnds_AreTaken) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  Outcome& outcome = *worker.Has(StartOn(worker, id), Attempt::ENDED).mutable_outcome();
  outcome = OutcomeOf(Outcome::FINISHED, v1::SUCCEEDED_NORMALLY);
  outcome.mutable_final_metrics()->set_train_loss(0.5);
  outcome.mutable_final_metrics()->set_eval_perplexity(INFINITY);  // The loss is above 709.
  outcome.mutable_final_metrics()->set_state_hash(std::string(64, '0'));
  Exchange(worker);
  EXPECT_EQ(Shown(id), "SUCCEEDED SUCCEEDED_NORMALLY");
  EXPECT_THAT(troubles, IsEmpty());
}

TEST_F(CoordinatorTest, StoppingWorker_IsGivenNothingNew) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  worker.report.set_stopping(true);
  Exchange(worker);
  const std::string id = CreateId();
  Pass(absl::Seconds(1));
  EXPECT_EQ(Shown(id), "QUEUED");
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::DRAINING);
  EXPECT_EQ(ViewOf("w1").message(), "its agent is stopping");
  v1::ExplainJobRequest explain;
  explain.set_id(id);
  EXPECT_THAT(coordinator->queries().ExplainJob(explain)->message(), testing::HasSubstr("worker w1 is stopping"));
  ScriptedWorker again("w1");
  again.report.set_incarnation("a2");
  Exchange(again);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Shown(id), "STARTING@w1#1");
}

TEST_F(CoordinatorTest, LostWorker_CanBeRemovedAndOthersCannot) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  EXPECT_EQ(RemoveWorker("w1"), "WORKER_NOT_LOST");
  EXPECT_EQ(RemoveWorker("w2"), "WORKER_NOT_FOUND");
  Pass(absl::Seconds(16));
  EXPECT_EQ(RemoveWorker("w1"), "OK");
  EXPECT_EQ(ViewOf("w1").name(), "");
  EXPECT_EQ(coordinator->sessions().ListWorkers({})->workers_size(), 0);
  EXPECT_FALSE(coordinator->sessions().CurrentDirective("w1", "a1").ok());
  StartServer();
  EXPECT_EQ(ViewOf("w1").name(), "") << "it is back after a restart";
  Exchange(worker);
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::READY) << "one that comes back is a new worker";
}

TEST_F(CoordinatorTest, LostWorker_IsForgottenAfterItsRetention) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  Pass(absl::Seconds(16));
  Pass(absl::Seconds(1));
  Pass(absl::Hours(47));
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::LOST);
  Pass(absl::Hours(1));
  EXPECT_EQ(ViewOf("w1").name(), "");
}

TEST_F(CoordinatorTest, LostWorker_IsNotForgottenBecauseTheWallClockLeapt) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  Pass(absl::Seconds(16));
  Pass(absl::Seconds(1));
  clock.SetNow(clock.Now() + absl::Hours(24 * 365));
  Pass(absl::Seconds(2));
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::LOST);
}

// Set back by an hour, or ahead by a year, the wall clock changes neither leases nor deadlines nor waits.
class LeapingClock : public CoordinatorTest, public testing::WithParamInterface<int> {
 protected:
  absl::Duration Leap() const { return absl::Hours(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(BackAndAhead, LeapingClock, testing::Values(-1, 24 * 365),
                         [](const auto& info) { return info.param < 0 ? "Back" : "Ahead"; });

TEST_P(LeapingClock, SilentWorkerIsLostInTimeAndAReportingOneStays) {
  ScriptedWorker silent("w1");
  Exchange(silent);
  ScriptedWorker living("w2");
  Exchange(living);
  clock.SetNow(clock.Now() + Leap());
  Pass(absl::Seconds(8));
  Exchange(living);
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::READY) << "a leap is no silence";
  Pass(absl::Seconds(8));
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::LOST);
  EXPECT_EQ(ViewOf("w2").state(), v1::Worker::READY);
}

TEST_P(LeapingClock, DeadlineEndsTheJobInTime) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  request.mutable_spec()->mutable_deadline()->set_seconds(100);
  absl::StatusOr<JobPtr> result;
  coordinator->commands().CreateJob(request, Into(&result));
  Pump();
  const std::string id = (*result)->id();
  ScriptedWorker worker("w1");
  StartOn(worker, id);
  Pass(absl::Seconds(2));
  clock.SetNow(clock.Now() + Leap());
  for (int i = 0; i < 10; ++i) {
    Exchange(worker);
    Pass(absl::Seconds(9));
  }
  Exchange(worker);
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  Pass(absl::Seconds(9));
  EXPECT_EQ(Shown(id), "CANCELLING@w1#1 DEADLINE");
}

TEST_P(LeapingClock, RetryComesInTime) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  v1::AttemptKey key = StartOn(worker, id);
  *worker.Has(key, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::DEVICE_ERROR);
  key = Exchange(worker).attempts(0).key();  // the first retry is at once
  *worker.Has(key, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::DEVICE_ERROR);
  Exchange(worker);
  worker.report.clear_attempts();
  EXPECT_EQ(Shown(id), "QUEUED DEVICE_ERROR");
  clock.SetNow(clock.Now() + Leap());
  for (int i = 0; i < 2 && Shown(id) == "QUEUED DEVICE_ERROR"; ++i) {
    Exchange(worker);
    Pass(absl::Seconds(4));
  }
  EXPECT_EQ(Shown(id), "STARTING@w1#3");
}

TEST_F(CoordinatorTest, OlderCheckpoints_AreGivenAlongWithTheOneToStartFrom) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  v1::AttemptReport& ended = worker.Has(StartOn(worker, id), Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 20);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::NONFINITE_LOSS);
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
  // Its own come first, then those of the first.
  v1::AttemptReport& crashed = worker.Has(directive.key(), Attempt::ENDED);
  *crashed.add_checkpoints() = CheckpointAt((*clone)->id(), 1, 60);
  *crashed.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::TRAINER_CRASHED);
  directive = Exchange(worker).attempts(0);
  EXPECT_EQ(directive.start_from().step(), 60);
  ASSERT_EQ(directive.older_checkpoints_size(), 2);
  EXPECT_EQ(directive.older_checkpoints(0).path(), absl::StrCat(id, "/1/step-40"));
  EXPECT_EQ(directive.older_checkpoints(1).path(), absl::StrCat(id, "/1/step-20"));
}

TEST_F(CoordinatorTest, OlderCheckpointsOfAnother_AreGivenUnlessAStepWasNamed) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  v1::AttemptReport& ended = worker.Has(StartOn(worker, id), Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 20);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::NONFINITE_LOSS);
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
        OutcomeOf(Outcome::FINISHED, v1::SUCCEEDED_NORMALLY);
    Exchange(worker);
    worker.report.clear_attempts();
  }
}

}  // namespace
}  // namespace ampd::server
