#include "worker/agent/attempts/outcomes.h"

#include <csignal>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ampd::agent {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string OutcomeText(const v1::Outcome& outcome) {
  return absl::StrCat(v1::Outcome::Kind_Name(outcome.kind()), " ", v1::Reason::Code_Name(outcome.reason()));
}

internal::ShimStatus EndedBy(int signal) {
  internal::ShimStatus exit;
  exit.set_exited(true);
  exit.set_signal(signal);
  return exit;
}

TEST(OutcomeFromExit, CrashedTrainer_HasItsSignalOrCode) {
  AttemptOnWorker attempt;
  attempt.step = 12;
  const v1::Outcome crashed = OutcomeFromExit(attempt, EndedBy(SIGABRT), /*oom_is_a_guess=*/false);
  EXPECT_EQ(OutcomeText(crashed), "FAILED TRAINER_CRASHED");
  EXPECT_EQ(crashed.last_step(), 12);
  EXPECT_EQ(crashed.signal(), SIGABRT);
  EXPECT_THAT(crashed.message(), HasSubstr("killed by signal 6 (ABRT)"));
  internal::ShimStatus exit;
  exit.set_exit_code(7);
  EXPECT_THAT(OutcomeFromExit(attempt, exit, /*oom_is_a_guess=*/false).message(), HasSubstr("code 7"));
}

TEST(OutcomeFromExit, WithoutAnExitStatus_TheTrainerIsGone) {
  EXPECT_EQ(OutcomeText(OutcomeFromExit(AttemptOnWorker(), std::nullopt, /*oom_is_a_guess=*/false)),
            "GONE WORKER_LOST");
}

TEST(OutcomeFromExit, TrainerThatItsShimKilled_WasLostWithItsLease) {
  internal::ShimStatus exit = EndedBy(SIGKILL);
  exit.set_killed(true);
  EXPECT_EQ(OutcomeText(OutcomeFromExit(AttemptOnWorker(), exit, /*oom_is_a_guess=*/false)), "FAILED WORKER_LOST");
}

TEST(OutcomeFromExit, CancelledTrainer_HasLeftHoweverItEnded) {
  AttemptOnWorker attempt;
  attempt.held.sent_desired = v1::Job::CANCEL;
  attempt.leave_reason = v1::Reason::USER_CANCELLED;
  internal::ShimStatus exit = EndedBy(SIGKILL);
  exit.set_killed(true);
  EXPECT_EQ(OutcomeText(OutcomeFromExit(attempt, exit, /*oom_is_a_guess=*/false)), "LEFT USER_CANCELLED");
}

TEST(OutcomeFromExit, WantOfMemory_IsSaidAsFarAsItIsKnown) {
  internal::ShimStatus exit = EndedBy(SIGKILL);
  exit.set_out_of_memory(true);
  const v1::Outcome known = OutcomeFromExit(AttemptOnWorker(), exit, /*oom_is_a_guess=*/false);
  EXPECT_EQ(OutcomeText(known), "FAILED OUT_OF_MEMORY");
  EXPECT_THAT(known.message(), StartsWith("the kernel"));
  EXPECT_THAT(OutcomeFromExit(AttemptOnWorker(), exit, /*oom_is_a_guess=*/true).message(), StartsWith("probably "));
}

TEST(CannotStartTrainer, AnyError_IsAFaultOfTheWorker) {
  EXPECT_EQ(OutcomeText(CannotStartTrainer(absl::ResourceExhaustedError("full"), 3)), "FAILED DISK_FULL");
  EXPECT_EQ(OutcomeText(CannotStartTrainer(absl::NotFoundError("no program"), 3)), "FAILED DEVICE_ERROR");
  EXPECT_EQ(CannotStartTrainer(absl::NotFoundError("no program"), 3).last_step(), 3);
}

}  // namespace
}  // namespace ampd::agent
