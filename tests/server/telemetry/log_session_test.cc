#include "server/telemetry/log_session.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

constexpr char kLogged[] = "j";

// A store and a hub, and a job record that the test changes. StoreOnDisk::AppendLog appends to the log of attempt 1.
class LogSessionTest : public testing::Test {
 protected:
  LogSessionTest() {
    job_.set_id(kLogged);
    job_.set_state(v1::Job::QUEUED);
  }

  void BeginAttempt() {
    job_.set_state(v1::Job::RUNNING);
    job_.set_num_attempts(job_.num_attempts() + 1);
    job_.add_attempts()->set_number(job_.num_attempts());
  }

  std::unique_ptr<LogSession> Tail(int32_t attempt, bool follow) {
    LogSession::Options options;
    options.request.set_id(kLogged);
    options.request.set_attempt(attempt);
    options.request.set_follow(follow);
    options.get_job = [this] { return found_.ok() ? absl::StatusOr<v1::Job>(job_) : found_; };
    options.store = &*store_;
    options.hub = &hub_;
    options.on_ready = [] {};
    return std::make_unique<LogSession>(std::move(options));
  }

  // Returns the next step as text: "1@0 text" for text of attempt 1 at offset 0, or "wait", "end", or the error.
  std::string Next(LogSession* session) {
    const LogSession::Step step = session->Next();
    if (step.kind == LogSession::Step::WAIT) {
      return "wait";
    }
    if (step.kind == LogSession::Step::END) {
      return step.status.ok() ? "end" : step.status.ToString();
    }
    return absl::StrCat(step.message.attempt(), "@", step.message.offset_bytes(), " ", step.message.content());
  }

  StoreOnDisk store_;
  MetricsHub hub_;
  v1::Job job_;
  absl::Status found_;  // If not OK, the session does not find the job, and gets this error.
};

// A parameter: whether the session follows the log.
class LogSessionOfNewest : public LogSessionTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(All, LogSessionOfNewest, testing::Bool());

TEST_P(LogSessionOfNewest, ReadsOneAttemptToItsEnd_AlsoIfALaterOneBegins) {
  BeginAttempt();
  ASSERT_TRUE(store_.AppendLog(0, "one\n").ok());
  auto session = Tail(/*attempt=*/0, /*follow=*/GetParam());
  EXPECT_EQ(Next(session.get()), "1@0 one\n");
  BeginAttempt();
  ASSERT_TRUE(store_.AppendLog(4, "two\n").ok());
  EXPECT_EQ(Next(session.get()), "1@4 two\n");
  EXPECT_EQ(Next(session.get()), "end");
}

TEST_F(LogSessionTest, AReaderOfAQueuedJob_GetsTheLogOfItsFirstAttempt) {
  auto session = Tail(/*attempt=*/0, /*follow=*/true);
  EXPECT_EQ(Next(session.get()), "wait");
  BeginAttempt();
  EXPECT_EQ(Next(session.get()), "wait");
  ASSERT_TRUE(store_.AppendLog(0, "one\n").ok());
  EXPECT_EQ(Next(session.get()), "1@0 one\n");
  EXPECT_EQ(Next(session.get()), "wait");
  job_.mutable_attempts(0)->set_state(v1::Attempt::ENDED);
  EXPECT_EQ(Next(session.get()), "end");
}

TEST_F(LogSessionTest, AReaderOfAQueuedJob_GetsTheFirstLogAlsoIfASecondAttemptHasBegun) {
  auto session = Tail(/*attempt=*/0, /*follow=*/true);
  EXPECT_EQ(Next(session.get()), "wait");
  BeginAttempt();
  ASSERT_TRUE(store_.AppendLog(0, "one\n").ok());
  BeginAttempt();
  EXPECT_EQ(Next(session.get()), "1@0 one\n");
  EXPECT_EQ(Next(session.get()), "end");
}

TEST_F(LogSessionTest, AJobOrAttemptThatIsNotFound_IsNotSubscribedTo) {
  auto session = Tail(/*attempt=*/1, /*follow=*/true);
  EXPECT_EQ(session->Next().status.code(), absl::StatusCode::kNotFound) << "the job has no attempt";
  EXPECT_EQ(hub_.num_jobs(), 0u);
  found_ = absl::NotFoundError("there is no job j");
  session = Tail(/*attempt=*/0, /*follow=*/true);
  EXPECT_EQ(session->Next().status, found_);
  EXPECT_EQ(hub_.num_jobs(), 0u);
}

}  // namespace
}  // namespace ampd::server
