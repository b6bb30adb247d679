#include "server/coordinator/worker_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/api/worker_protocol.h"
#include "base/error.h"
#include "base/version.h"
#include "tests/server/coordinator/coordinator_fixtures.h"

namespace ampd::server {
namespace {

using testing::IsEmpty;
using v1::Attempt;
using v1::Job;
using v1::Outcome;

class WorkerSessionsTest : public CoordinatorTest {};

TEST_F(WorkerSessionsTest, JobRunsToItsEnd_AndTheOutcomeIsAcknowledgedOnlyWhenDurable) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  *worker.Has(key, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
  worker.report.set_sequence(worker.report.sequence() + 1);
  const auto at_once = coordinator->sessions().HandleReport(worker.report);
  EXPECT_EQ(at_once->acknowledged_outcomes_size(), 0) << "acknowledged before it was on disk";
  Pump();
  EXPECT_EQ(Shown(id), "SUCCEEDED SUCCEEDED_NORMALLY");
  EXPECT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->acknowledged_outcomes_size(), 1);
  EXPECT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->attempts_size(), 0);
}

TEST_F(WorkerSessionsTest, LeaseIsRenewedFromTheReportThatAsked) {
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

TEST_F(WorkerSessionsTest, ReturnedWorker_IsDirectedToEndWhatItLost) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey first = StartOn(worker, id);
  Pass(absl::Seconds(16));
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST");
  const v1::WorkerDirective directive = Exchange(worker);
  for (const auto& attempt : directive.attempts()) {
    EXPECT_NE(attempt.key().token(), first.token());
  }
  *worker.Has(first, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
  worker.report.clear_reflected();
  EXPECT_EQ(Exchange(worker).acknowledged_outcomes_size(), 1);
  EXPECT_EQ(Shown(id).substr(0, 9), "STARTING@") << "a fenced outcome ended the job";
  EXPECT_EQ(ReasonOf(coordinator->queries().FindAttempt(first).status()), "FENCED");
}

TEST_F(WorkerSessionsTest, AttemptNotYetThere_IsNotTakenForGone) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  const std::string id = CreateId();
  // This directive contains the attempt, but it is lost on its way to the worker.
  ASSERT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->attempts_size(), 1);
  worker.report.set_sequence(worker.report.sequence() + 1);
  ASSERT_TRUE(coordinator->sessions().HandleReport(worker.report).ok());
  Pump();
  EXPECT_EQ(Shown(id), "STARTING@w1#1");
  EXPECT_EQ((*coordinator->queries().GetJob(id))->num_attempts(), 1);
  Exchange(worker);  // From now on the report reflects a directive with the attempt.
  Exchange(worker);
  EXPECT_EQ(Shown(id).substr(0, 9), "STARTING@");
  EXPECT_EQ((*coordinator->queries().GetJob(id))->num_attempts(), 2) << "an attempt that is gone was not ended";
}

TEST_F(WorkerSessionsTest, RestartOfTheServer_KeepsAttemptsAndStartsLeasesOver) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  clock.Advance(absl::Minutes(30));
  const int num_before = num_events;
  num_events = 0;
  StartServer();
  EXPECT_EQ(num_events, num_before) << "the history was not reported again";
  Pass(absl::Seconds(14));
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  const v1::DirectiveId before = worker.report.reflected();
  const v1::WorkerDirective directive = Exchange(worker);
  EXPECT_EQ(directive.attempts(0).key().token(), key.token());
  EXPECT_GT(directive.id().number(), before.number());
  EXPECT_EQ(directive.id().epoch(), before.epoch());
}

TEST_F(WorkerSessionsTest, ReplacedAgent_IsRefused) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  ScriptedWorker successor("w1");
  successor.report.set_incarnation("a2");
  Exchange(successor);
  worker.report.set_sequence(99);
  EXPECT_EQ(ReasonOf(coordinator->sessions().HandleReport(worker.report).status()), "REPLACED");
}

TEST_F(WorkerSessionsTest, AgentWithAnotherProtocol_IsRefusedAndTheOlderOneIsNamed) {
  ScriptedWorker worker("w1");
  Exchange(worker);  // Agents of ampd 0.1 report no protocol numbers.
  worker.report.set_newest_protocol(kNewestWorkerProtocol + 4);
  worker.report.set_oldest_protocol(kNewestWorkerProtocol);
  Exchange(worker);
  worker.report.set_version("9.8.7");
  worker.report.set_sequence(worker.report.sequence() + 1);
  worker.report.set_oldest_protocol(kNewestWorkerProtocol + 1);
  const absl::Status refused = coordinator->sessions().HandleReport(worker.report).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused), "WORKER_PROTOCOL_UNSUPPORTED");
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(testing::HasSubstr("worker w1 of ampd 9.8.7 speaks versions 2 to 5 "),
                             testing::EndsWith("; upgrade the server")));
  EXPECT_EQ(ViewOf("w1").message(), refused.message());
  EXPECT_THAT(troubles, testing::Contains(testing::HasSubstr("9.8.7")));
}

TEST_F(WorkerSessionsTest, OutcomeOfAKindThatOnlyNewerWorkersKnow_IsAFailureThatIsRetried) {
  const std::string id = CreateId();
  ScriptedWorker worker("w1");
  const v1::AttemptKey first = StartOn(worker, id);
  *worker.Has(first, Attempt::ENDED).mutable_outcome() =
      OutcomeOf(static_cast<Outcome::Kind>(99), static_cast<v1::Reason::Code>(98));
  Exchange(worker);
  EXPECT_EQ((*coordinator->queries().GetJob(id))->num_retries_used(), 1);
  StartServer();
  const v1::Outcome& kept = (*coordinator->queries().GetJob(id))->attempts(0).outcome();
  EXPECT_EQ(static_cast<int>(kept.kind()), 99) << "a newer server still knows what it was";
  EXPECT_EQ(static_cast<int>(kept.reason()), 98);
}

TEST_F(WorkerSessionsTest, WorkerThatIsMoreThanOneMinorVersionApart_IsShownWithAWarning) {
  ScriptedWorker worker("w1");
  const MinorVersion own = *ParseVersion(Version());
  worker.report.set_version(absl::StrCat(own.major, ".", own.minor + 1, ".9"));
  Exchange(worker);
  EXPECT_EQ(ViewOf("w1").message(), "");
  worker.report.set_version(absl::StrCat(own.major, ".", own.minor + 2, ".0"));
  Exchange(worker);
  EXPECT_THAT(ViewOf("w1").message(), testing::HasSubstr("more than one minor version from the server's "));
}

TEST_F(WorkerSessionsTest, AgentOfAnotherIdentity_IsRefusedWhileTheWorkerIsNotLost) {
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
  // The agent "red", which owns the worker's name, is still served. If "red" restarts, it is served again.
  EXPECT_EQ(Exchange(holder).attempts(0).key().token(), key.token());
  holder.report.set_incarnation("a2");
  EXPECT_EQ(Exchange(holder).attempts(0).key().token(), key.token());
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
}

TEST_F(WorkerSessionsTest, AgentOfAnotherIdentity_IsTakenOnceTheWorkerIsLostAndGivesTheNameBackAlike) {
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

TEST_F(WorkerSessionsTest, AgentOfAnotherIdentity_IsRefusedAfterARestartOfTheServerToo) {
  ScriptedWorker red("w1", "red");
  Exchange(red);
  StartServer();
  ScriptedWorker blue("w1", "blue");
  blue.report.set_sequence(1);
  EXPECT_EQ(ReasonOf(coordinator->sessions().HandleReport(blue.report).status()), "WORKER_NAME_IN_USE");
  Exchange(red);
}

TEST_F(WorkerSessionsTest, AgentOfAnotherIdentity_IsRefusedBeforeTheFirstsRegistrationIsOnDisk) {
  ScriptedWorker red("w1", "red");
  red.report.set_sequence(1);
  ASSERT_TRUE(coordinator->sessions().HandleReport(red.report).ok());
  ScriptedWorker blue("w1", "blue");
  blue.report.set_sequence(1);
  EXPECT_EQ(ReasonOf(coordinator->sessions().HandleReport(blue.report).status()), "WORKER_NAME_IN_USE");
  Pump();
  Exchange(red);
}

TEST_F(WorkerSessionsTest, Checkpoint_IsRecordedBeforeTheOutcomeAndUsedByTheNextAttempt) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  v1::AttemptReport& ended = worker.Has(key, Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::TRAINER_CRASHED);
  const v1::WorkerDirective directive = Exchange(worker);
  EXPECT_EQ(directive.acknowledged_checkpoints_size(), 1);
  EXPECT_EQ(directive.acknowledged_outcomes_size(), 1);
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).key().attempt(), 2);
  EXPECT_EQ(directive.attempts(0).start_from().step(), 40);
  EXPECT_EQ(coordinator->queries().FindAttempt(directive.attempts(0).key())->from_step, 40);
  EXPECT_TRUE(coordinator->queries().FindAttempt(key)->ended);
}

// A wrong path must not be recorded, because the server later orders workers to delete the files at the path.
TEST_F(WorkerSessionsTest, CheckpointOfAnotherPathThanItsOwn_IsNeitherRecordedNorAcknowledged) {
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
  *ended.mutable_outcome() = OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
  Exchange(worker);
  EXPECT_EQ(Shown(id), "SUCCEEDED SUCCEEDED_NORMALLY ckpt=40") << "the rest of the report counts";
}

TEST_F(WorkerSessionsTest, DrainedWorker_IsLeftAndTheJobGoesElsewhere) {
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
  EXPECT_EQ(directive.attempts(0).desired_reason(), v1::Reason::WORKER_DRAINED);
  *worker.Has(key, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::LEFT, v1::Reason::WORKER_DRAINED);
  Exchange(worker);
  EXPECT_EQ(Shown(id), "QUEUED WORKER_DRAINED");
  ScriptedWorker other("w2");
  Exchange(other);
  EXPECT_EQ(Shown(id), "STARTING@w2#2");
}

TEST_F(WorkerSessionsTest, AReportThatIsLargerThanAnyAgentMakesItIsRefusedByField) {
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
  EXPECT_EQ(refusal([&](v1::WorkerReport* report) {
              report->add_attempts()->mutable_outcome()->mutable_final_metrics()->add_phases()->set_name(huge);
            }),
            "attempts[0].outcome.final_metrics.phases");
  EXPECT_EQ(refusal([](v1::WorkerReport*) {}), "taken");
}

TEST_F(WorkerSessionsTest, ALongMessageOfAnOutcomeIsCut) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  v1::AttemptReport& ended = worker.Has(StartOn(worker, id), Attempt::ENDED);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::DATA_ERROR);
  ended.mutable_outcome()->set_message(std::string(1 << 20, 'x'));
  Exchange(worker);
  const Job job = **coordinator->queries().GetJob(id);
  EXPECT_EQ(job.state(), Job::FAILED);
  EXPECT_LE(job.ByteSizeLong(), 16u << 10);
  EXPECT_THAT(job.message(), testing::EndsWith("xxx..."));
}

TEST_F(WorkerSessionsTest, TotalStepsThatTheTrainerCounted_AreKeptOnTheAttempt) {
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
  worker.Has(key, Attempt::SUSPENDED);  // An agent that has just found its trainer reports this.
  Exchange(worker);
  StartServer();
  EXPECT_EQ(coordinator->queries().GetJob(id).value()->attempts(0).total_steps(), 1875);
}

TEST_F(WorkerSessionsTest, PrecisionRaisedWhileRunning_IsTheAttemptsFromThenOnAndTheJobStaysAsItIs) {
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
  const int num_before = num_events;
  Exchange(worker);
  EXPECT_EQ(PrecisionOf(id), "bf16");
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  EXPECT_EQ(num_events, num_before) << "the trainer reports it";
  worker.Has(key, Attempt::SUSPENDED);  // An agent that has just found its trainer reports this.
  Exchange(worker);
  StartServer();
  EXPECT_EQ(PrecisionOf(id), "bf16");
}

TEST_F(WorkerSessionsTest, PrecisionReportedFirstWithTheOutcome_IsTheAttempts) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  v1::AttemptReport& ended = worker.Has(key, Attempt::ENDED);
  ended.set_precision("bf16");
  ended.set_total_steps(kSmallSteps);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
  Exchange(worker);
  EXPECT_EQ(Shown(id), "SUCCEEDED SUCCEEDED_NORMALLY");
  EXPECT_EQ(PrecisionOf(id), "bf16");
  EXPECT_EQ(coordinator->queries().GetJob(id).value()->attempts(0).total_steps(), kSmallSteps);
}

TEST_F(WorkerSessionsTest, CheckpointsToDelete_AreListedUntilTheWorkerReflectsThem) {
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

// A second agent uses a copy of the first agent's state folder at another place. So both agents have the same id.
TEST_F(WorkerSessionsTest, CopyOfAnAgentElsewhere_IsRefusedAndShownAndTheFirstGoesOn) {
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

TEST_F(WorkerSessionsTest, MovedStateFolder_IsTakenOnceTheWorkerIsLost) {
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

// A second agent runs with a copy of the first agent's state folder, at the same path, as in a copied container. To the
// server this looks like a restart of the first agent. So the server refuses the first agent. Then the first agent
// registers again with `yields`: it takes the worker back only if the second agent is silent.
TEST_F(WorkerSessionsTest, DisplacedAgentThatYields_IsTakenOnceTheOtherOneIsSilent) {
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

// The stream of the agent that previously had the name is still open. The server must not send tokens on it.
TEST_F(WorkerSessionsTest, Tokens_AreForTheAgentThatHasTheNameAlone) {
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

TEST_F(WorkerSessionsTest, IdOfAnAgent_IsInNoAnswer) {
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

TEST_F(WorkerSessionsTest, WorkersWhoseReportCantBe_AreRefusedByTheField) {
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

// A worker reports an impossible checkpoint. The server does not record the checkpoint, and reports it to operators
// once. The worker's stream does not end.
TEST_F(WorkerSessionsTest, CheckpointThatCantBe_IsNotRecordedAndTheWorkerGoesOn) {
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
  EXPECT_EQ(troubles.size(), 4u) << absl::StrJoin(troubles, "\n");  // Two of the five checkpoints give the same line.
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
        std::pair{"NegativeEnergy", [](Outcome& it) { it.mutable_final_metrics()->set_energy_joules(-1); }},
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
  outcome = OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
  GetParam().second(outcome);
  EXPECT_EQ(Exchange(worker).acknowledged_outcomes_size(), 1);
  const JobPtr ended = coordinator->queries().GetJob(id).value();
  EXPECT_EQ(ended->state(), Job::FAILED);
  EXPECT_THAT(ended->message(), testing::HasSubstr("the worker reported an end that can't be: "));
  EXPECT_LT(ended->ByteSizeLong(), 10'000u);
  EXPECT_EQ(troubles.size(), 1u);
}

TEST_F(WorkerSessionsTest, HonestEnds_AreTaken) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  Outcome& outcome = *worker.Has(StartOn(worker, id), Attempt::ENDED).mutable_outcome();
  outcome = OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
  outcome.mutable_final_metrics()->set_train_loss(0.5);
  // An infinite perplexity is valid, because the perplexity of a loss above 709 overflows.
  outcome.mutable_final_metrics()->set_eval_perplexity(INFINITY);
  outcome.mutable_final_metrics()->set_state_hash(std::string(64, '0'));
  Exchange(worker);
  EXPECT_EQ(Shown(id), "SUCCEEDED SUCCEEDED_NORMALLY");
  EXPECT_THAT(troubles, IsEmpty());
}

// Jobs that are evaluated every 50 steps and stop early after two evaluations without improvement.
class EarlyStopTest : public CoordinatorTest {
 protected:
  std::string CreateStopping() {
    v1::CreateJobRequest request;
    v1::JobSpec& spec = *request.mutable_spec();
    spec = SmallSpec();
    spec.set_max_retries(0);
    *spec.mutable_data()->mutable_eval() = spec.data().train();
    spec.mutable_eval()->set_every_steps(50);
    spec.mutable_train()->mutable_early_stopping()->set_patience(2);
    absl::StatusOr<JobPtr> job;
    coordinator->commands().CreateJob(request, Into(&job));
    Pump();
    EXPECT_TRUE(job.ok()) << job.status();
    return (*job)->id();
  }

  // Reports that the job's attempt ended at this step, and returns the job. `checkpoint_step`: the step of a checkpoint
  // that the attempt saved earlier; 0: it saved none.
  JobPtr EndAt(const std::string& id, int64_t step, int64_t checkpoint_step = 0) {
    ScriptedWorker worker("w1");
    const v1::AttemptKey key = StartOn(worker, id);
    if (checkpoint_step > 0) {
      *worker.Has(key, Attempt::RUNNING).add_checkpoints() = CheckpointAt(id, 1, checkpoint_step);
      Exchange(worker);
    }
    Outcome& outcome = *worker.Has(key, Attempt::ENDED).mutable_outcome();
    outcome = OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
    outcome.set_last_step(step);
    outcome.set_message("training stopped early");
    Exchange(worker);
    return coordinator->queries().GetJob(id).value();
  }
};

TEST_F(EarlyStopTest, AnEndAtAnEvaluation_IsASuccessWithTheTrainersMessage) {
  const JobPtr job = EndAt(CreateStopping(), 400, /*checkpoint_step=*/400);
  EXPECT_EQ(job->state(), Job::SUCCEEDED);
  EXPECT_EQ(job->reason(), v1::Reason::SUCCEEDED_NORMALLY);
  EXPECT_EQ(job->message(), "training stopped early");
  EXPECT_EQ(job->attempts(0).outcome().last_step(), 400);
  EXPECT_THAT(troubles, IsEmpty());
}

TEST_F(EarlyStopTest, AtTheLastStep_ItEndsAsAnyOtherJob) {
  EXPECT_EQ(EndAt(CreateStopping(), kSmallSteps)->state(), Job::SUCCEEDED);
  EXPECT_THAT(troubles, IsEmpty());
}

TEST_F(EarlyStopTest, AnEndWithoutAnEvaluation_IsNoSuccess) {
  const JobPtr job = EndAt(CreateStopping(), 401);
  EXPECT_EQ(job->state(), Job::FAILED);
  EXPECT_THAT(job->message(), testing::HasSubstr("it finished at step 401 of 1000"));
}

TEST_F(EarlyStopTest, AnEndBeforeThePatienceCanBeOver_IsNoSuccess) {
  EXPECT_EQ(EndAt(CreateStopping(), 50)->state(), Job::FAILED);
}

TEST_F(EarlyStopTest, AnEndAtTheEarliestStep_IsASuccess) {
  EXPECT_EQ(EndAt(CreateStopping(), 100)->state(), Job::SUCCEEDED);
}

TEST_F(EarlyStopTest, AnEndBeforeTheAttemptsCheckpoint_IsNoSuccess) {
  const JobPtr job = EndAt(CreateStopping(), 400, /*checkpoint_step=*/450);
  EXPECT_EQ(job->state(), Job::FAILED);
  EXPECT_THAT(job->message(), testing::HasSubstr("it finished at step 400, before step 450"));
}

// The trainer finds the checkpoint of step 450 damaged, starts from an older one, and stops before step 450.
TEST_F(EarlyStopTest, AnEndBeforeADamagedCheckpoint_IsASuccess) {
  const std::string id = CreateStopping();
  ScriptedWorker worker("w1");
  v1::AttemptReport& lost = worker.Has(StartOn(worker, id), Attempt::ENDED);
  *lost.add_checkpoints() = CheckpointAt(id, 1, 450);
  *lost.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::DEVICE_ERROR);
  Exchange(worker);
  clock.Advance(absl::Minutes(5));  // The delay before a retry.
  const v1::AttemptKey key = StartOn(worker, id);
  ASSERT_EQ(coordinator->queries().GetJob(id).value()->attempts(1).from_step(), 450);
  Outcome& outcome = *worker.Has(key, Attempt::ENDED).mutable_outcome();
  outcome = OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
  outcome.set_last_step(400);
  Exchange(worker);
  EXPECT_EQ(coordinator->queries().GetJob(id).value()->state(), Job::SUCCEEDED);
}

TEST_F(EarlyStopTest, AJobThatOnlyEvaluates_MayNotEndEarly) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  request.mutable_spec()->set_max_retries(0);
  *request.mutable_spec()->mutable_data()->mutable_eval() = request.spec().data().train();
  request.mutable_spec()->mutable_eval()->set_every_steps(50);
  absl::StatusOr<JobPtr> job;
  coordinator->commands().CreateJob(request, Into(&job));
  Pump();
  EXPECT_EQ(EndAt((*job)->id(), 400)->state(), Job::FAILED);
}

TEST_F(WorkerSessionsTest, RemovedWorker_LeavesNeitherSessionNorLease) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  Pass(absl::Seconds(16));
  EXPECT_EQ(RemoveWorker("w1"), "OK");
  EXPECT_FALSE(coordinator->sessions().FindFacts("w1").has_value());
  clock.Advance(absl::Hours(1));
  EXPECT_THAT(coordinator->sessions().BeginLosses(), IsEmpty());
}

TEST_F(WorkerSessionsTest, AWorkerWhoseRegistrationWasRefused_IsForgottenWithItsLease) {
  max_queue = 2;
  StartServer();
  for (int i = 0; i < 2; ++i) {
    coordinator->sessions().RemoveWorker({}, [](const absl::Status&) {});
  }
  ScriptedWorker worker("w1");
  worker.report.set_sequence(1);
  ASSERT_TRUE(coordinator->sessions().HandleReport(worker.report).ok()) << "its registration found the ledger full";
  Pump();
  ASSERT_EQ(ViewOf("w1").name(), "");
  Pass(absl::Seconds(16));
  EXPECT_FALSE(coordinator->sessions().CurrentDirective("w1", "a1").ok());
  EXPECT_THAT(coordinator->sessions().BeginLosses(), IsEmpty()) << "it would be declared lost with each tick";
  Exchange(worker);
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::READY);
}

TEST_F(WorkerSessionsTest, AWorkerThatIsDrainedAndRemovedAtOnce_IsNotFound) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  Pass(absl::Seconds(16));
  v1::DrainWorkerRequest drain;
  drain.set_name("w1");
  absl::StatusOr<v1::Worker> drained = absl::UnknownError("never answered");
  coordinator->sessions().DrainWorker(drain, [&](absl::StatusOr<v1::Worker> view) { drained = std::move(view); });
  EXPECT_EQ(RemoveWorker("w1"), "OK");
  EXPECT_EQ(ReasonOf(drained.status()), "WORKER_NOT_FOUND");
}

}  // namespace
}  // namespace ampd::server
