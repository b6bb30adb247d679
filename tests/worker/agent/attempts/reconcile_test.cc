#include "worker/agent/attempts/reconcile.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ampd::agent {
namespace {

using v1::Attempt;
using v1::Job;

v1::AttemptKey Key(const std::string& job, int attempt = 1, const std::string& token = "t") {
  v1::AttemptKey key;
  key.set_job_id(job);
  key.set_attempt(attempt);
  key.set_token(token);
  return key;
}

v1::Device Cpu(const std::string& id = "cpu") {
  v1::Device device;
  device.set_id(id);
  device.set_kind(v1::Device::CPU);
  return device;
}

HeldAttempt Held(const v1::AttemptKey& key, Attempt::State state, const std::string& device = "cpu") {
  HeldAttempt held;
  held.key = key;
  held.device = device;
  held.state = state;
  held.occupies_device = state != Attempt::ENDED;
  return held;
}

v1::WorkerDirective Directive(uint64_t number, uint64_t epoch = 1) {
  v1::WorkerDirective directive;
  directive.mutable_id()->set_epoch(epoch);
  directive.mutable_id()->set_number(number);
  directive.mutable_lease()->set_seconds(10);
  directive.mutable_suspend_limit()->set_seconds(3600);
  return directive;
}

v1::AttemptDirective& Want(v1::WorkerDirective& directive, const v1::AttemptKey& key, Job::Desired desired = Job::RUN,
                           const std::string& device = "cpu") {
  v1::AttemptDirective& wanted = *directive.add_attempts();
  *wanted.mutable_key() = key;
  wanted.set_desired(desired);
  wanted.add_devices(device);
  return wanted;
}

std::string Text(const std::vector<v1::AttemptKey>& keys) {
  return absl::StrJoin(keys, " ", [](std::string* out, const v1::AttemptKey& key) {
    absl::StrAppend(out, key.job_id(), "/", key.attempt(), key.token() == "t" ? "" : absl::StrCat(":", key.token()));
  });
}

// Returns all requested actions as one line of text.
std::string Text(const Actions& actions) {
  std::string text = actions.stale ? "stale;" : "";
  auto add = [&](const std::string& verb, const auto& list) {
    std::vector<v1::AttemptKey> keys;
    for (const auto& item : list) {
      keys.push_back(item.key);
    }
    if (!keys.empty()) {
      absl::StrAppend(&text, verb, " ", Text(keys), ";");
    }
  };
  if (!actions.kill.empty()) absl::StrAppend(&text, "kill ", Text(actions.kill), ";");
  if (!actions.forget.empty()) absl::StrAppend(&text, "forget ", Text(actions.forget), ";");
  add("renew", actions.renew);
  add("leave", actions.leave);
  add("scale", actions.loss_scale);
  add("gradients", actions.sample_gradients);
  add("profile", actions.profile);
  add("refuse", actions.refuse);
  for (const StartAction& start : actions.start) {
    absl::StrAppend(&text, "start ", Text({start.directive.key()}), "@", start.device, ";");
  }
  if (!actions.wait.empty()) absl::StrAppend(&text, "wait ", Text(actions.wait), ";");
  if (!actions.remove.empty()) absl::StrAppend(&text, "remove ", absl::StrJoin(actions.remove, " "), ";");
  if (!actions.remove_later.empty()) absl::StrAppend(&text, "later ", absl::StrJoin(actions.remove_later, " "), ";");
  return text;
}

Holdings OneCpu() {
  Holdings holdings;
  holdings.devices.push_back(Cpu());
  return holdings;
}

TEST(Reconcile, NothingHeldAndNothingWanted_DoesNothing) { EXPECT_EQ(Text(Reconcile(OneCpu(), Directive(1))), ""); }

TEST(Reconcile, NamedAttemptOnAFreeDevice_IsStartedWithTheLeaseCountedFromTheSending) {
  Holdings holdings = OneCpu();
  holdings.last_sent_boottime_nanos = 5'000'000'000;
  v1::WorkerDirective directive = Directive(1);
  directive.set_renewal_of_boottime_nanos(4'000'000'000);
  Want(directive, Key("j1"));
  const Actions actions = Reconcile(holdings, directive);
  EXPECT_EQ(Text(actions), "start j1/1@cpu;");
  EXPECT_EQ(actions.start[0].lease_deadline, absl::Seconds(14));
  EXPECT_EQ(actions.lease_deadline, absl::Seconds(14));
}

TEST(Reconcile, DirectiveWithoutRenewal_StartsUnderTheWorkersLease) {
  Holdings holdings = OneCpu();
  holdings.lease_deadline = absl::Seconds(12);
  v1::WorkerDirective directive = Directive(1);
  Want(directive, Key("j1"));
  EXPECT_EQ(Reconcile(holdings, directive).start[0].lease_deadline, absl::Seconds(12));
}

TEST(Reconcile, HeldAttemptThatIsNotNamed_IsKilledOnceAndForgottenWhenItEnded) {
  Holdings holdings = OneCpu();
  holdings.attempts.push_back(Held(Key("j1"), Attempt::RUNNING));
  EXPECT_EQ(Text(Reconcile(holdings, Directive(1))), "kill j1/1;");
  holdings.attempts[0].killed = true;
  EXPECT_EQ(Text(Reconcile(holdings, Directive(2))), "");
  holdings.attempts[0].state = Attempt::ENDED;
  EXPECT_EQ(Text(Reconcile(holdings, Directive(3))), "forget j1/1;");
}

TEST(Reconcile, OtherTokenOfTheSameAttempt_EndsTheOldBeforeTheNewStarts) {
  Holdings holdings = OneCpu();
  holdings.devices.push_back(Cpu("cpu2"));
  holdings.attempts.push_back(Held(Key("j1", 1, "old"), Attempt::RUNNING));
  v1::WorkerDirective directive = Directive(1);
  Want(directive, Key("j1", 1, "new"), Job::RUN, "cpu2");
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "kill j1/1:old;wait j1/1:new;");
  holdings.attempts[0].state = Attempt::ENDED;
  holdings.attempts[0].occupies_device = false;
  holdings.reflected = directive.id();
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "stale;");
  EXPECT_EQ(Text(Reconcile(holdings, directive, /*again=*/true)), "forget j1/1:old;start j1/1:new@cpu2;");
}

TEST(Reconcile, OccupiedDevice_MakesTheNextAttemptWait) {
  Holdings holdings = OneCpu();
  holdings.attempts.push_back(Held(Key("j1"), Attempt::RUNNING));
  v1::WorkerDirective directive = Directive(1);
  Want(directive, Key("j1"));
  Want(directive, Key("j2"));
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "wait j2/1;");
}

TEST(Reconcile, TwoAttemptsOfOneDirectiveOnOneDevice_StartOne) {
  v1::WorkerDirective directive = Directive(1);
  Want(directive, Key("j1"));
  Want(directive, Key("j2"));
  EXPECT_EQ(Text(Reconcile(OneCpu(), directive)), "start j1/1@cpu;wait j2/1;");
}

TEST(Reconcile, UnknownDevice_IsRefusedWithATypedOutcome) {
  v1::WorkerDirective directive = Directive(1);
  Want(directive, Key("j1"), Job::RUN, "gpu7");
  const Actions actions = Reconcile(OneCpu(), directive);
  EXPECT_EQ(Text(actions), "refuse j1/1;");
  EXPECT_EQ(actions.refuse[0].outcome.kind(), v1::Outcome::FAILED);
  EXPECT_EQ(actions.refuse[0].outcome.reason(), v1::Reason::DEVICE_ERROR);
  EXPECT_THAT(actions.refuse[0].outcome.message(), testing::HasSubstr("gpu7"));
}

TEST(Reconcile, CancelledBeforeItStarted_LeavesWithoutAProcess) {
  v1::WorkerDirective directive = Directive(1);
  v1::AttemptDirective& wanted = Want(directive, Key("j1"), Job::CANCEL);
  wanted.set_desired_reason(v1::Reason::USER_CANCELLED);
  wanted.mutable_start_from()->set_step(40);
  const Actions actions = Reconcile(OneCpu(), directive);
  EXPECT_EQ(Text(actions), "refuse j1/1;");
  EXPECT_EQ(actions.refuse[0].outcome.kind(), v1::Outcome::LEFT);
  EXPECT_EQ(actions.refuse[0].outcome.reason(), v1::Reason::USER_CANCELLED);
  EXPECT_EQ(actions.refuse[0].outcome.last_step(), 40);
}

// The server was restored from a backup. It knows only attempt 1 of the job j1 ("j1/1") and pauses it, but the worker
// runs attempt 2 ("j1/2"). The server may give the job to another worker as soon as j1/1 has ended. The test expects
// that the worker kills j1/2, and reports the end of j1/1 only after that.
TEST(Reconcile, PausedBeforeItStarted_EndsOnlyAfterAnotherAttemptOfItsJob) {
  Holdings holdings = OneCpu();
  holdings.attempts.push_back(Held(Key("j1", 2), Attempt::RUNNING));
  v1::WorkerDirective directive = Directive(1, /*epoch=*/2);
  Want(directive, Key("j1"), Job::PAUSE);
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "kill j1/2;wait j1/1;");
  holdings.attempts[0].state = Attempt::ENDED;
  holdings.attempts[0].occupies_device = false;
  holdings.reflected = directive.id();
  EXPECT_EQ(Text(Reconcile(holdings, directive, /*again=*/true)), "forget j1/2;refuse j1/1;");
}

TEST(Reconcile, PauseIsToldOnce_AndCancelGoesOverIt) {
  Holdings holdings = OneCpu();
  holdings.attempts.push_back(Held(Key("j1"), Attempt::RUNNING));
  v1::WorkerDirective pause = Directive(1);
  Want(pause, Key("j1"), Job::PAUSE);
  EXPECT_EQ(Text(Reconcile(holdings, pause)), "leave j1/1;");
  holdings.attempts[0].sent_desired = Job::PAUSE;
  EXPECT_EQ(Text(Reconcile(holdings, pause)), "");
  v1::WorkerDirective cancel = Directive(2);
  Want(cancel, Key("j1"), Job::CANCEL);
  EXPECT_EQ(Text(Reconcile(holdings, cancel)), "leave j1/1;");
  holdings.attempts[0].sent_desired = Job::CANCEL;
  EXPECT_EQ(Text(Reconcile(holdings, pause)), "");
}

TEST(Reconcile, LiveLossScale_IsSentOnceForEachChange) {
  Holdings holdings = OneCpu();
  holdings.attempts.push_back(Held(Key("j1"), Attempt::RUNNING));
  v1::WorkerDirective directive = Directive(1);
  v1::AttemptDirective& wanted = Want(directive, Key("j1"));
  wanted.mutable_live_loss_scale()->set_number(3);
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "scale j1/1;");
  holdings.attempts[0].sent_loss_scale = 2;
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "scale j1/1;");
  holdings.attempts[0].sent_loss_scale = 3;
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "");
  wanted.mutable_live_loss_scale()->set_number(4);
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "scale j1/1;");
}

TEST(Reconcile, RequestForGradients_IsToldOnceAndTheNextAgain) {
  Holdings holdings = OneCpu();
  holdings.attempts.push_back(Held(Key("j1"), Attempt::RUNNING));
  v1::WorkerDirective directive = Directive(1);
  v1::AttemptDirective& wanted = Want(directive, Key("j1"));
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "");
  wanted.set_gradient_request_number(1);
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "gradients j1/1;");
  holdings.attempts[0].sent_gradient_request = 1;
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "");
  wanted.set_gradient_request_number(2);
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "gradients j1/1;");
}

TEST(Reconcile, RequestForAProfile_IsToldOnceAndTheNextAgain) {
  Holdings holdings = OneCpu();
  holdings.attempts.push_back(Held(Key("j1"), Attempt::RUNNING));
  v1::WorkerDirective directive = Directive(1);
  v1::AttemptDirective& wanted = Want(directive, Key("j1"));
  for (const uint64_t number : {1, 2}) {
    wanted.mutable_profile()->set_number(number);
    EXPECT_EQ(Text(Reconcile(holdings, directive)), "profile j1/1;");
    holdings.attempts[0].sent_profile_request = number;
    EXPECT_EQ(Text(Reconcile(holdings, directive)), "");
  }
}

TEST(Reconcile, AcknowledgedOutcome_IsForgottenAndNotStartedAgain) {
  Holdings holdings = OneCpu();
  holdings.attempts.push_back(Held(Key("j1"), Attempt::ENDED));
  v1::WorkerDirective directive = Directive(1);
  Want(directive, Key("j1"));
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "");
  *directive.add_acknowledged_outcomes() = Key("j1");
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "forget j1/1;");
  holdings.attempts[0].forgotten = true;
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "");
  EXPECT_EQ(Text(Reconcile(holdings, Directive(2))), "");
  holdings.attempts.clear();
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "");
}

TEST(Reconcile, RenewalFromAReportThatWasNotSent_IsNotBelieved) {
  Holdings holdings = OneCpu();
  holdings.attempts.push_back(Held(Key("j1"), Attempt::RUNNING));
  holdings.attempts[0].lease_deadline = absl::Seconds(3);
  holdings.lease_deadline = absl::Seconds(3);
  holdings.last_sent_boottime_nanos = 1'000'000'000;
  v1::WorkerDirective directive = Directive(1);
  Want(directive, Key("j1"));
  directive.set_renewal_of_boottime_nanos(2'000'000'000);
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "");
  directive.set_renewal_of_boottime_nanos(1'000'000'000);
  const Actions actions = Reconcile(holdings, directive);
  EXPECT_EQ(Text(actions), "renew j1/1;");
  EXPECT_EQ(actions.renew[0].lease_deadline, absl::Seconds(11));
}

TEST(Reconcile, EndedAttemptWhoseTrainerIsThere_KeepsItsLeaseThoughNotNamed) {
  Holdings holdings = OneCpu();
  holdings.last_sent_boottime_nanos = 5'000'000'000;
  holdings.attempts.push_back(Held(Key("j1"), Attempt::ENDED));
  holdings.attempts[0].occupies_device = true;
  holdings.attempts[0].forgotten = true;
  v1::WorkerDirective directive = Directive(1);
  directive.set_renewal_of_boottime_nanos(4'000'000'000);
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "renew j1/1;");
  holdings.attempts[0].killed = true;
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "");
  holdings.attempts[0].killed = false;
  holdings.attempts[0].occupies_device = false;
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "");
}

TEST(Reconcile, OlderAndRepeatedDirectives_ChangeNothing) {
  Holdings holdings = OneCpu();
  holdings.reflected = Directive(5, 2).id();
  holdings.attempts.push_back(Held(Key("j1"), Attempt::RUNNING));
  EXPECT_EQ(Text(Reconcile(holdings, Directive(5, 2))), "stale;");
  EXPECT_EQ(Text(Reconcile(holdings, Directive(4, 2))), "stale;");
  EXPECT_EQ(Text(Reconcile(holdings, Directive(9, 1))), "stale;");
  EXPECT_EQ(Text(Reconcile(holdings, Directive(1, 3))), "kill j1/1;");
}

// A simple model of a worker: it gets random directives, and carries out the resulting actions, some of them with a
// delay.
class RandomWorker {
 public:
  explicit RandomWorker(uint64_t seed) : random_(seed) { holdings_.devices = {Cpu("d0"), Cpu("d1"), Cpu("d2")}; }

  void Step() {
    SometimesEnd();
    v1::WorkerDirective directive = RandomDirective();
    const Actions actions = Reconcile(holdings_, directive);
    ASSERT_EQ(Text(actions), Text(Reconcile(holdings_, directive))) << "not deterministic";
    Do(actions, directive);
    CheckInvariants(directive);
    const Actions repeated = Reconcile(holdings_, directive, /*again=*/true);
    std::string left = Text(repeated);
    if (!repeated.wait.empty()) {
      left = left.substr(0, left.find("wait"));
    }
    EXPECT_EQ(left, "") << "a repeated directive asked for more";
  }

 private:
  int Below(int limit) { return static_cast<int>(random_.Next() % limit); }

  // Ends random attempts. Removes random attempts that the server has forgotten; others stay for a while, as if their
  // telemetry were not stored yet.
  void SometimesEnd() {
    std::erase_if(holdings_.attempts, [&](const HeldAttempt& held) { return held.forgotten && Below(2) == 0; });
    for (HeldAttempt& held : holdings_.attempts) {
      if (held.state != Attempt::ENDED && (held.killed || Below(4) == 0)) {
        held.state = Attempt::ENDED;
        held.occupies_device = false;
      }
    }
  }

  v1::WorkerDirective RandomDirective() {
    v1::WorkerDirective directive = Directive(++number_);
    for (int job = 0; job < 4; ++job) {
      if (Below(3) == 0) {
        continue;
      }
      const v1::AttemptKey key = Key(absl::StrCat("j", job), 1 + Below(2), Below(2) == 0 ? "t" : "u");
      Want(directive, key, static_cast<Job::Desired>(1 + Below(3)), absl::StrCat("d", Below(4)));
      if (Below(3) == 0) {
        *directive.add_acknowledged_outcomes() = key;
      }
    }
    return directive;
  }

  HeldAttempt* Find(const v1::AttemptKey& key) {
    for (HeldAttempt& held : holdings_.attempts) {
      if (SameAttempt(held.key, key)) {
        return &held;
      }
    }
    return nullptr;
  }

  void Do(const Actions& actions, const v1::WorkerDirective& directive) {
    for (const v1::AttemptKey& key : actions.kill) {
      ASSERT_NE(Find(key), nullptr);
      Find(key)->killed = true;
    }
    for (const LeaveAction& leave : actions.leave) {
      Find(leave.key)->sent_desired = leave.desired;
    }
    for (const v1::AttemptKey& key : actions.forget) {
      ASSERT_NE(Find(key), nullptr);
      EXPECT_FALSE(std::exchange(Find(key)->forgotten, true)) << "forgotten twice";
    }
    for (const RefuseAction& refuse : actions.refuse) {
      holdings_.attempts.push_back(Held(refuse.key, Attempt::ENDED, ""));
    }
    for (const StartAction& start : actions.start) {
      holdings_.attempts.push_back(Held(start.directive.key(), Attempt::STARTING, start.device));
    }
    holdings_.reflected = directive.id();
  }

  void CheckInvariants(const v1::WorkerDirective& directive) {
    std::map<std::string, int> on_device;
    std::map<std::string, int> of_job;
    for (const HeldAttempt& held : holdings_.attempts) {
      if (!held.occupies_device) {
        continue;
      }
      EXPECT_EQ(++on_device[held.device], 1) << "two attempts on " << held.device;
      EXPECT_EQ(++of_job[held.key.job_id()], 1) << "two attempts of " << held.key.job_id() << " compute";
      const bool named =
          std::any_of(directive.attempts().begin(), directive.attempts().end(),
                      [&](const v1::AttemptDirective& wanted) { return SameAttempt(wanted.key(), held.key); });
      EXPECT_TRUE(named || held.killed) << held.key.ShortDebugString() << " lives without being named";
    }
  }

  SeededRandom random_;
  Holdings holdings_;
  uint64_t number_ = 0;
};

TEST(Reconcile, FolderOfWhatStillLives_IsRemovedOnceItsProcessIsGone) {
  Holdings holdings = OneCpu();
  holdings.attempts.push_back(Held(Key("j1", 2), Attempt::RUNNING));
  v1::WorkerDirective directive = Directive(1);
  for (const char* path : {"j1", "j1/1", "j1/2", "j1/2/step-5", "j11", "j2/2"}) {
    directive.add_delete_checkpoints()->set_path(path);
  }
  EXPECT_EQ(Text(Reconcile(holdings, directive)), "kill j1/2;remove j1/1 j1/2/step-5 j11 j2/2;later j1 j1/2;");
  // The attempt's outcome has been reported, but its process is still running.
  holdings.attempts[0].state = Attempt::ENDED;
  holdings.attempts[0].forgotten = true;
  holdings.removals = {"j1", "j1/2"};
  holdings.reflected = directive.id();
  EXPECT_EQ(Text(Reconcile(holdings, Directive(2))), "later j1 j1/2;") << "though it is not named any more";
  holdings.attempts[0].occupies_device = false;
  EXPECT_EQ(Text(Reconcile(holdings, Directive(2))), "remove j1 j1/2;");
}

TEST(Reconcile, RandomDirectives_KeepOneAttemptADeviceAndAJob) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomWorker worker(seed);
    for (int step = 0; step < 60; ++step) {
      worker.Step();
      if (testing::Test::HasFailure()) {
        return;
      }
    }
  }
}

}  // namespace
}  // namespace ampd::agent
