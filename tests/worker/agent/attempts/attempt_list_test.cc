#include "worker/agent/attempts/attempt_list.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace ampd::agent {
namespace {

v1::AttemptKey KeyOf(const std::string& job) {
  v1::AttemptKey key;
  key.set_job_id(job);
  key.set_attempt(1);
  key.set_token("token-" + job);
  return key;
}

// Returns the attempts and states that are reported, such as "j1:RUNNING j2:ASSIGNED".
std::string Reported(const AttemptList& attempts) {
  v1::WorkerReport report;
  attempts.AddTo(&report, absl::Seconds(100));
  return absl::StrJoin(report.attempts(), " ", [](std::string* text, const v1::AttemptReport& attempt) {
    absl::StrAppend(text, attempt.key().job_id(), ":", v1::Attempt::State_Name(attempt.state()));
  });
}

TEST(AttemptList, Report_HasHeldAndWaitingAttempts) {
  AttemptList attempts;
  attempts.Add(KeyOf("j1")).held.state = v1::Attempt::RUNNING;
  attempts.Add(KeyOf("j2")).held.state = v1::Attempt::ENDED;
  attempts.SetWaiting({KeyOf("j3")});
  EXPECT_EQ(Reported(attempts), "j1:RUNNING j2:ENDED j3:ASSIGNED");
  attempts.SetWaiting({});
  EXPECT_EQ(Reported(attempts), "j1:RUNNING j2:ENDED");
}

TEST(AttemptList, ForgottenAttempt_IsHeldButNotReported) {
  AttemptList attempts;
  attempts.Add(KeyOf("j1")).held.forgotten = true;
  EXPECT_EQ(Reported(attempts), "");
  ASSERT_EQ(attempts.Held().size(), 1u);
  EXPECT_EQ(attempts.Held()[0].key.job_id(), "j1");
}

TEST(AttemptList, Attempt_IsFoundByItsWholeKeyAndByItsSpawn) {
  AttemptList attempts;
  AttemptOnWorker& first = attempts.Add(KeyOf("j1"));
  first.spawn_id = "spawn";
  attempts.Add(KeyOf("j2"));
  EXPECT_EQ(attempts.Find(KeyOf("j1")), &first);
  EXPECT_EQ(attempts.FindBySpawn("spawn"), &first);
  EXPECT_EQ(attempts.FindBySpawn("another"), nullptr);
  v1::AttemptKey other = KeyOf("j1");
  other.set_token("another");
  EXPECT_EQ(attempts.Find(other), nullptr);
  attempts.RemoveIf([](const AttemptOnWorker& attempt) { return attempt.held.key.job_id() == "j1"; });
  EXPECT_EQ(attempts.Find(KeyOf("j1")), nullptr);
  EXPECT_EQ(attempts.size(), 1u);
}

}  // namespace
}  // namespace ampd::agent
