#include "worker/agent/attempts/artifact_gate.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace ampd::agent {
namespace {

constexpr char kArtifact[] = "aaaa";

// An attempt that needs an artifact. Its trainer has not been told to start it yet.
AttemptOnWorker Waiting() {
  AttemptOnWorker attempt;
  attempt.held.key.set_job_id("j1");
  attempt.held.key.set_attempt(1);
  attempt.held.key.set_token("token");
  attempt.wanted.emplace();
  attempt.wanted->mutable_spec()->mutable_model()->mutable_exported()->set_artifact(kArtifact);
  return attempt;
}

// Returns what CheckArtifact decides for the attempt: "start", "wait", or the kind and reason of the outcome.
std::string Decide(const AttemptOnWorker& attempt, const ArtifactState& artifact,
                   const std::optional<internal::Hello>& hello = internal::Hello()) {
  const GateDecision decision = CheckArtifact(attempt, hello, artifact);
  if (decision.outcome.has_value()) {
    EXPECT_FALSE(decision.may_start);
    return absl::StrCat(v1::Outcome::Kind_Name(decision.outcome->kind()), " ",
                        v1::Reason::Code_Name(decision.outcome->reason()));
  }
  return decision.may_start ? "start" : "wait";
}

const ArtifactState kMissing;
const ArtifactState kHere = {.is_here = true, .error = absl::OkStatus()};

TEST(ArtifactOf, TrainerThatResumes_ReadsNone) {
  v1::AttemptDirective wanted = *Waiting().wanted;
  EXPECT_EQ(ArtifactOf(wanted), kArtifact);
  wanted.mutable_start_from()->set_path("j1/1/step-5");
  EXPECT_EQ(ArtifactOf(wanted), "") << "the model is in the checkpoint";
  wanted.set_weights_only(true);
  EXPECT_EQ(ArtifactOf(wanted), kArtifact);
}

TEST(ArtifactNeededBy, StartingAttempt_NeedsItsArtifact) {
  AttemptOnWorker attempt = Waiting();
  EXPECT_EQ(ArtifactNeededBy(attempt), kArtifact);
  attempt.trainer_state = v1::Attempt::RUNNING;
  EXPECT_EQ(ArtifactNeededBy(attempt), "");
  attempt = Waiting();
  attempt.held.state = v1::Attempt::ENDED;
  EXPECT_EQ(ArtifactNeededBy(attempt), "");
  EXPECT_EQ(ArtifactNeededBy(AttemptOnWorker()), "") << "no directive has named it";
}

TEST(CheckArtifact, AttemptWithoutAnArtifact_Starts) {
  AttemptOnWorker attempt;
  attempt.wanted.emplace();
  EXPECT_EQ(Decide(attempt, kMissing, std::nullopt), "start");
}

TEST(CheckArtifact, AttemptWithAnArtifact_StartsWhenThatIsHere) {
  EXPECT_EQ(Decide(Waiting(), kMissing), "wait");
  EXPECT_EQ(Decide(Waiting(), kHere), "start");
  EXPECT_EQ(Decide(Waiting(), kHere, std::nullopt), "wait") << "its trainer may have been started already";
}

TEST(CheckArtifact, TrainerThatAnEarlierAgentStarted_NeedsNoArtifact) {
  AttemptOnWorker attempt = Waiting();
  attempt.held.sent_desired = v1::Job::PAUSE;
  internal::Hello hello;
  *hello.mutable_key() = attempt.held.key;
  EXPECT_EQ(Decide(attempt, kMissing, hello), "start");
}

TEST(CheckArtifact, ArtifactThatCannotBeHad_EndsTheAttemptByWhoseFaultItIs) {
  EXPECT_EQ(Decide(Waiting(), {.error = absl::NotFoundError("none")}), "FAILED DATA_ERROR");
  EXPECT_EQ(Decide(Waiting(), {.error = absl::DataLossError("damaged")}), "FAILED DATA_ERROR");
  EXPECT_EQ(Decide(Waiting(), {.error = absl::ResourceExhaustedError("full")}), "FAILED DISK_FULL");
  EXPECT_EQ(Decide(Waiting(), {.error = absl::InternalError("I/O")}), "FAILED DEVICE_ERROR");
}

TEST(CheckArtifact, AttemptThatIsToLeaveBeforeItStarted_Ends) {
  AttemptOnWorker attempt = Waiting();
  attempt.held.sent_desired = v1::Job::PAUSE;
  attempt.leave_reason = v1::Reason::USER_PAUSED;
  attempt.wanted->mutable_start_from()->set_step(7);
  attempt.wanted->mutable_start_from()->set_path("j0/1/step-7");
  attempt.wanted->set_weights_only(true);
  EXPECT_EQ(Decide(attempt, kMissing), "LEFT USER_PAUSED");
  EXPECT_EQ(CheckArtifact(attempt, internal::Hello(), kMissing).outcome->last_step(), 7);
  attempt.held.state = v1::Attempt::ENDED;
  EXPECT_EQ(Decide(attempt, kMissing), "wait") << "it has ended already";
}

}  // namespace
}  // namespace ampd::agent
