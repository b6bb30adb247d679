// Compares ClusterState with JobModel on random sequences of updates from workers and users.
#include "tests/server/state/job_model.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/state/cluster_state.h"
#include "server/state/job_rules.h"
#include "tests/count_from_environment.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {
namespace {

using v1::Attempt;
using v1::Job;
using v1::Outcome;

// To repeat a failure, pass the seed that it prints: RC_PARAMS="seed=<seed>" server_job_model_test
constexpr char kParameters[] = "seed=20240607 max_size=150 max_success=";

enum class Verb {
  kCreate,
  kCancel,
  kPause,
  kResume,
  kExpire,
  kPriority,
  kStartOver,
  kDelete,
  kArchive,
  kRegister,
  kDrain,
  kUndrain,
  kLose,
  kAssign,
  kAdvance,
  kSave,
  kEnd,
};

constexpr const char* kVerbNames[] = {"Create",    "Cancel", "Pause",   "Resume",   "Expire", "Priority",
                                      "StartOver", "Delete", "Archive", "Register", "Drain",  "Undrain",
                                      "Lose",      "Assign", "Advance", "Save",     "End"};

constexpr Outcome::Kind kKinds[] = {Outcome::FAILED, Outcome::FINISHED, Outcome::LEFT, Outcome::GONE};
constexpr v1::Reason::Code kReasons[] = {v1::Reason::TRAINER_CRASHED, v1::Reason::WORKER_LOST, v1::Reason::DATA_ERROR,
                                         v1::Reason::INTERNAL,        v1::Reason::USER_PAUSED, v1::Reason::PREEMPTED,
                                         v1::Reason::OUT_OF_MEMORY};
constexpr Attempt::State kProgress[] = {Attempt::RUNNING, Attempt::STARTING, Attempt::SUSPENDED, Attempt::ASSIGNED};

// One random update. Its numbers are small and relative to the current state, so that a shortened sequence still makes
// sense.
struct Command {
  Verb verb = Verb::kCreate;
  int job = 0;
  int worker = 0;
  int behind = 0;  // Which attempt sends: 0 the newest, 1 the one before it, -1 one that does not exist yet.
  bool forged = false;
  int detail = 0;
};

std::string JobId(const Command& command) { return absl::StrCat("j", command.job + 1); }
std::string WorkerName(const Command& command) { return absl::StrCat("w", command.worker + 1); }

void showValue(const Command& command, std::ostream& out) {
  out << kVerbNames[static_cast<int>(command.verb)] << "(" << JobId(command) << " " << WorkerName(command) << " behind "
      << command.behind << (command.forged ? " forged" : "") << " detail " << command.detail << ")\n";
}

rc::Gen<Command> ACommand() {
  // Most random updates move a job forward, and few end it, so that the sequences reach every state.
  const auto verb = rc::gen::weightedElement<Verb>({{3, Verb::kCreate},
                                                    {2, Verb::kCancel},
                                                    {4, Verb::kPause},
                                                    {4, Verb::kResume},
                                                    {1, Verb::kExpire},
                                                    {1, Verb::kPriority},
                                                    {1, Verb::kStartOver},
                                                    {1, Verb::kDelete},
                                                    {1, Verb::kArchive},
                                                    {6, Verb::kRegister},
                                                    {2, Verb::kDrain},
                                                    {4, Verb::kUndrain},
                                                    {2, Verb::kLose},
                                                    {14, Verb::kAssign},
                                                    {8, Verb::kAdvance},
                                                    {5, Verb::kSave},
                                                    {9, Verb::kEnd}});
  return rc::gen::build<Command>(
      rc::gen::set(&Command::verb, verb), rc::gen::set(&Command::job, rc::gen::inRange(0, 3)),
      rc::gen::set(&Command::worker, rc::gen::inRange(0, 2)),
      rc::gen::set(&Command::behind, rc::gen::weightedElement<int>({{8, 0}, {1, 1}, {1, -1}})),
      rc::gen::set(&Command::forged, rc::gen::weightedElement<bool>({{9, false}, {1, true}})),
      rc::gen::set(&Command::detail, rc::gen::inRange(0, 28)));
}

// Generates updates for one job that crashes repeatedly and saves checkpoints in between. The other random sequences
// rarely contain this.
rc::Gen<Command> ACommandOfALongLife() {
  const auto verb = rc::gen::weightedElement<Verb>({{1, Verb::kCreate},
                                                    {2, Verb::kRegister},
                                                    {1, Verb::kLose},
                                                    {10, Verb::kAssign},
                                                    {4, Verb::kAdvance},
                                                    {8, Verb::kSave},
                                                    {8, Verb::kEnd}});
  return rc::gen::build<Command>(
      rc::gen::set(&Command::verb, verb),
      rc::gen::set(&Command::detail, rc::gen::weightedElement<int>({{6, 0}, {1, 4}, {1, 2}})));
}

// Applies each update to ClusterState and to JobModel, compares the results, and checks the invariants of ClusterState
// after every update.
//
// Conditions with || in RC_ASSERT are in additional parentheses, because the macro would otherwise evaluate both sides.
class Trial {
 public:
  void Run(const Command& command) {
    const internal::Update update = ToUpdate(command);
    const std::string before = state_.ToSnapshot(0).SerializeAsString();
    const auto states_before = States();
    const absl::StatusOr<Applied> applied = state_.Apply(update);
    const Verdict expected = ToModel(command);
    RC_ASSERT(VerdictOf(applied) == expected);
    const std::string after = state_.ToSnapshot(0).SerializeAsString();
    RC_ASSERT((before == after) == (expected != Verdict::kChanged));
    if (applied.ok()) {
      readers_.Adopt(*applied);
    }
    RC_ASSERT(readers_.ToSnapshot(0).SerializeAsString() == after);
    RC_ASSERT(ClusterState::FromSnapshot(state_.ToSnapshot(0)).ToSnapshot(0).SerializeAsString() == after);
    CheckMoves(states_before);
    CheckAttempts();
    for (int job = 0; job < 3; ++job) {
      CheckSameJob(absl::StrCat("j", job + 1));
    }
  }

  // Cancels all jobs. After any sequence of updates, a cancelled job must end when its attempt ends, and then never
  // change.
  void CancelAll(int detail) {
    for (int job = 0; job < 3; ++job) {
      Run({Verb::kCancel, job});
      Run({Verb::kResume, job});
      Run({Verb::kEnd, job, 0, 0, false, detail});
      Run({Verb::kPause, job});
      const auto found = model_.jobs().find(absl::StrCat("j", job + 1));
      if (found != model_.jobs().end()) {
        const Job::State state = state_.FindJob(found->first)->job().state();
        RC_ASSERT(IsAtRestForEver(state));
        RC_ASSERT((!found->second.was_cancelled || state == Job::CANCELLED));
      }
    }
  }

  static std::set<std::pair<Job::State, Job::State>>& MovesSeen() {
    static std::set<std::pair<Job::State, Job::State>> moves;
    return moves;
  }

 private:
  using StateOf = std::map<std::string, Job::State>;

  int AttemptOf(const Command& command) const { return model_.NumAttempts(JobId(command)) - command.behind; }

  internal::Update ToUpdate(const Command& command) {
    const std::string job = JobId(command), worker = WorkerName(command);
    const int attempt = AttemptOf(command);
    internal::Update update;
    switch (command.verb) {
      case Verb::kCreate:
        return make_.Create(job);
      case Verb::kCancel:
        return make_.Desire(job, Job::CANCEL);
      case Verb::kPause:
        return make_.Desire(job, Job::PAUSE);
      case Verb::kResume:
        return make_.Desire(job, Job::RUN);
      case Verb::kExpire:
        update = make_.New();
        update.mutable_expire_deadline()->set_job(job);
        return update;
      case Verb::kPriority:
        update = make_.New();
        update.mutable_change_job()->set_job(job);
        update.mutable_change_job()->set_priority(command.detail);
        return update;
      case Verb::kStartOver:
        update = make_.New();
        update.mutable_start_over()->set_job(job);
        return update;
      case Verb::kDelete:
        update = make_.New();
        update.mutable_delete_job()->set_job(job);
        return update;
      case Verb::kArchive:
        update = make_.New();
        update.mutable_archive_jobs()->add_jobs(job);
        return update;
      case Verb::kRegister:
        return make_.Register(worker);
      case Verb::kDrain:
        return make_.Drain(worker, true);
      case Verb::kUndrain:
        return make_.Drain(worker, false);
      case Verb::kLose:
        return make_.Lose(worker);
      case Verb::kAssign:
        return make_.Assign(job, attempt + 1, worker);
      default:
        return OfAttempt(command, job, attempt);
    }
  }

  internal::Update OfAttempt(const Command& command, const std::string& job, int attempt) {
    internal::Update update;
    v1::AttemptKey* key = nullptr;
    if (command.verb == Verb::kAdvance) {
      update = make_.Advance(job, attempt, kProgress[command.detail % 4]);
      key = update.mutable_advance_attempt()->mutable_key();
    } else if (command.verb == Verb::kSave) {
      update = make_.Save(job, attempt, command.detail);
      key = update.mutable_record_checkpoint()->mutable_key();
    } else {
      update = make_.End(job, attempt, kKinds[command.detail % 4], kReasons[command.detail % 7]);
      key = update.mutable_end_attempt()->mutable_key();
    }
    if (command.forged) {
      key->set_token("guess");
    }
    return update;
  }

  Verdict ToModel(const Command& command) {
    const std::string job = JobId(command), worker = WorkerName(command);
    const int attempt = AttemptOf(command);
    switch (command.verb) {
      case Verb::kCreate:
        return model_.Create(job);
      case Verb::kCancel:
        return model_.Cancel(job);
      case Verb::kPause:
        return model_.Pause(job);
      case Verb::kResume:
        return model_.Resume(job);
      case Verb::kExpire:
        return model_.ExpireDeadline(job);
      case Verb::kPriority:
        return model_.ChangePriority(job);
      case Verb::kStartOver:
        return model_.StartOver(job);
      case Verb::kDelete:
      case Verb::kArchive:
        return model_.Remove(job);
      case Verb::kRegister:
        return model_.Register(worker);
      case Verb::kDrain:
      case Verb::kUndrain:
        return model_.SetDrained(worker, command.verb == Verb::kDrain);
      case Verb::kLose:
        return model_.Lose(worker);
      case Verb::kAssign:
        return model_.Assign(job, attempt + 1, worker);
      case Verb::kAdvance:
        return model_.Advance(job, attempt, command.forged, kProgress[command.detail % 4]);
      case Verb::kSave:
        return model_.Save(job, attempt, command.forged, command.detail);
      case Verb::kEnd:
        return model_.End(job, attempt, command.forged, kKinds[command.detail % 4], kReasons[command.detail % 7]);
    }
    return Verdict::kNotFound;
  }

  static Verdict VerdictOf(const absl::StatusOr<Applied>& applied) {
    if (applied.ok()) {
      return applied->changed ? Verdict::kChanged : Verdict::kUnchanged;
    }
    switch (applied.status().code()) {
      case absl::StatusCode::kNotFound:
        return Verdict::kNotFound;
      case absl::StatusCode::kAlreadyExists:
        return Verdict::kAlreadyExists;
      case absl::StatusCode::kFailedPrecondition:
        return Verdict::kFailedPrecondition;
      default:
        RC_FAIL(applied.status().ToString());
    }
  }

  StateOf States() const {
    StateOf states;
    for (const auto& [order, record] : state_.jobs()) {
      states[record->job().id()] = record->job().state();
    }
    return states;
  }

  // Checks that the table of legal moves allows all changes of state, and that terminal states never change.
  void CheckMoves(const StateOf& before) {
    for (const auto& [id, to] : States()) {
      const auto from = before.find(id);
      if (from != before.end() && from->second != to) {
        RC_ASSERT(!IsAtRestForEver(from->second));
        RC_ASSERT(IsLegalMove(from->second, to));
        MovesSeen().insert({from->second, to});
      }
    }
  }

  // Checks that a job has one live attempt in active states and none in other states, and that no two live attempts
  // hold the same device.
  void CheckAttempts() {
    std::set<std::pair<std::string, std::string>> held;
    for (const auto& [order, record] : state_.jobs()) {
      int num_live = 0;
      for (const Attempt& attempt : record->job().attempts()) {
        num_live += attempt.state() != Attempt::ENDED ? 1 : 0;
        for (const std::string& device : attempt.devices()) {
          RC_ASSERT((attempt.state() == Attempt::ENDED || held.insert({attempt.worker(), device}).second));
        }
      }
      RC_ASSERT(num_live == (HasLiveAttempt(record->job().state()) ? 1 : 0));
    }
  }

  void CheckSameJob(const std::string& id) {
    const std::string shown = Show(state_, id);
    RC_ASSERT(shown.substr(0, shown.find(' ')) == model_.Shown(id));
    const JobRecordPtr record = state_.FindJob(id);
    RC_ASSERT((record == nullptr || record->job().num_retries_used() == model_.jobs().at(id).num_retries));
  }

  ClusterState state_;
  ClusterState readers_;
  JobModel model_;
  UpdateMaker make_;
};

void Check(const std::string& what, const rc::Gen<Command>& command) {
  const int64_t num_wanted = CountFromEnvironment("AMPD_MODEL_SEQUENCES", 2000);
  setenv("RC_PARAMS", absl::StrCat(kParameters, num_wanted).c_str(), /*overwrite=*/0);
  std::printf("RC_PARAMS=\"%s\"\n", std::getenv("RC_PARAMS"));
  int64_t num_sequences = 0, num_updates = 0;
  EXPECT_TRUE(rc::check(what, [&] {
    Trial trial;
    const auto commands = *rc::gen::container<std::vector<Command>>(command);
    for (const Command& one : commands) {
      trial.Run(one);
    }
    trial.CancelAll(*rc::gen::inRange(0, 28));
    ++num_sequences;
    num_updates += static_cast<int64_t>(commands.size());
  }));
  std::printf("%ld sequences, %ld updates\n", num_sequences, num_updates);
  EXPECT_GE(num_sequences, std::min<int64_t>(num_wanted, 1000));
}

TEST(JobModelTest, RandomSequences_GoAsTheModelSays) {
  Check("ClusterState does what JobModel says", ACommand());
  EXPECT_EQ(Trial::MovesSeen().size(), 25u) << "some legal move was never made";
}

TEST(JobModelTest, LongLives_GoAsTheModelSays) { Check("Retries are counted as JobModel says", ACommandOfALongLife()); }

}  // namespace
}  // namespace ampd::server
