#include "tests/sim/simulation.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/state/attempt_tokens.h"
#include "server/state/job_rules.h"

namespace ampd::sim {
namespace {

using server::ClusterState;
using v1::Attempt;
using v1::Job;

constexpr int kHosts = 3;
constexpr absl::Duration kFaultyTime = absl::Seconds(150);
constexpr absl::Duration kTimeToRest = absl::Seconds(900);

}  // namespace

Simulation::Simulation(uint64_t seed, Bug bug) : world_(seed, bug), links_(kHosts) {
  server_random_ = std::make_unique<SeededRandom>(seed ^ 0x5eed);
  for (size_t i = 0; i < kHosts; ++i) {
    const int num_devices = i == kHosts - 1 ? 2 : 1;
    hosts_.push_back(std::make_unique<Host>(&world_, absl::StrCat("w", i), num_devices, HooksFor(i)));
  }
}

Host::Hooks Simulation::HooksFor(size_t host) {
  Host::Hooks hooks;
  hooks.send = [this, host](const v1::WorkerReport& report) { SendUp(host, report); };
  hooks.on_delete = [this](const std::string& path) {
    if (coordinator_ == nullptr) {
      return;
    }
    ledger_->Read([&](const ClusterState& state) {
      for (const auto& [order, record] : state.jobs()) {
        for (const v1::Checkpoint& checkpoint : record->job().checkpoints()) {
          if (checkpoint.path() == path || absl::StartsWith(checkpoint.path(), path + "/")) {
            world_.Violate("a checkpoint that is still recorded was deleted: " + path);
          }
        }
      }
    });
  };
  hooks.on_outcome_acknowledged = [this](const v1::AttemptKey& key) {
    acknowledged_outcomes_.push_back(key);
    state_changed_ = true;
  };
  hooks.on_checkpoint_acknowledged = [this](const v1::CheckpointKey& key) {
    int64_t& step = acknowledged_checkpoints_[{key.attempt().job_id(), key.attempt().attempt()}];
    step = std::max(step, key.step());
    state_changed_ = true;
  };
  hooks.on_load = [this](const v1::Checkpoint& checkpoint) {
    world_.Trace("load " + checkpoint.path());
    if (checkpoint.path().empty()) {
      world_.Violate("a trainer was told to load a checkpoint without a path");
    }
  };
  hooks.current_key = [this](const std::string& job) { return CurrentKey(job); };
  return hooks;
}

Result Simulation::Run() {
  StartServer();
  for (const auto& host : hosts_) {
    host->StartAgent();
  }
  UserLater();
  FaultLater();
  world_.After(kFaultyTime, [this] { CalmDown(); });
  const absl::Duration end = world_.now() + kFaultyTime + kTimeToRest;
  while (world_.violation().empty() && world_.RunNext()) {
    CheckComputing();
    // All invariants but one depend only on the state, so they are checked only when the state has changed. The
    // exception is the invariant about computing trainers.
    if (std::exchange(state_changed_, false)) {
      CheckState();
    }
    if (!world_.faults && AllAtRest()) {
      break;
    }
    if (world_.now() > end) {
      world_.Violate("not everything came to rest");
    }
  }
  Result result;
  if (coordinator_ != nullptr) {
    ledger_->Read([&](const ClusterState& state) {
      for (const auto& [order, record] : state.jobs()) {
        ++result.num_jobs;
        result.num_attempts += record->job().num_attempts();
        world_.Trace(absl::StrCat(record->job().id(), Job::State_Name(record->job().state()), record->version()));
      }
    });
  }
  result.violation = world_.violation();
  result.hash = world_.hash();
  result.num_events = world_.num_events();
  result.num_faults = world_.num_faults();
  return result;
}

void Simulation::CheckComputing() {
  std::set<std::string_view> jobs;
  for (const auto& host : hosts_) {
    std::set<std::string_view> devices;
    host->ForEachComputing([&](const v1::AttemptKey& key, const std::string& device) {
      if (!jobs.insert(key.job_id()).second) {
        world_.Violate(absl::StrCat("two attempts of job ", key.job_id(), " compute at once, one on ", host->name()));
      }
      if (!devices.insert(device).second) {
        world_.Violate(absl::StrCat("two attempts compute at once on device ", host->name(), "/", device));
      }
      CheckNotEnded(key);
    });
  }
}

void Simulation::CheckNotEnded(const v1::AttemptKey& key) {
  if (coordinator_ == nullptr) {
    return;
  }
  const server::JobRecordPtr record =
      ledger_->Read([&](const ClusterState& state) { return state.FindJob(key.job_id()); });
  if (record == nullptr) {
    return;
  }
  const auto attempt = server::FindAttemptByToken(*record, key);
  if (attempt.ok() && server::EndedByItself(**attempt)) {
    world_.Violate(absl::StrCat("attempt ", key.attempt(), " of job ", key.job_id(), " ended and computes"));
  }
}

void Simulation::CheckState() {
  if (coordinator_ == nullptr) {
    return;
  }
  ledger_->Read([&](const ClusterState& state) {
    std::set<std::string> held;
    for (const auto& [order, record] : state.jobs()) {
      CheckJob(record->job());
      if (!server::IsActive(record->job().state())) {
        continue;
      }
      const Attempt& attempt = *record->job().attempts().rbegin();
      for (const std::string& device : attempt.devices()) {
        if (!held.insert(attempt.worker() + "/" + device).second) {
          world_.Violate("device " + attempt.worker() + "/" + device + " holds two attempts");
        }
      }
    }
    CheckAcknowledged(state);
  });
}

void Simulation::CheckJob(const Job& job) {
  const auto before = terminal_.find(job.id());
  if (before != terminal_.end() && before->second != job.state()) {
    world_.Violate(absl::StrCat("job ", job.id(), " left the terminal state ", Job::State_Name(before->second)));
  }
  if (server::IsTerminal(job.state())) {
    terminal_[job.id()] = job.state();
  }
  if (job.state() == Job::SUCCEEDED && job.attempts().rbegin()->outcome().last_step() != LastStepOf(job.spec())) {
    world_.Violate(absl::StrCat("job ", job.id(), " succeeded at another step than its trainers finish at"));
  }
  if (cancelled_.count(job.id()) > 0 && job.state() != Job::CANCELLING && !server::IsTerminal(job.state())) {
    world_.Violate(absl::StrCat("cancelled job ", job.id(), " is ", Job::State_Name(job.state())));
  }
}

void Simulation::CheckAcknowledged(const ClusterState& state) {
  std::set<std::string> jobs;
  for (const Submission& submission : submissions_) {
    if (submission.job.empty() || deleted_.count(submission.job) > 0) {
      continue;
    }
    if (state.FindJob(submission.job) == nullptr) {
      world_.Violate("acknowledged job " + submission.job + " is lost");
    }
    if (!jobs.insert(submission.job).second) {
      world_.Violate("two requests were given job " + submission.job);
    }
  }
  for (const v1::AttemptKey& key : acknowledged_outcomes_) {
    const server::JobRecordPtr record = state.FindJob(key.job_id());
    if (record == nullptr) {
      continue;
    }
    const auto attempt = server::FindAttemptByToken(*record, key);
    if (attempt.ok() && (*attempt)->state() != Attempt::ENDED) {
      world_.Violate(absl::StrCat("the acknowledged end of ", key.job_id(), "/", key.attempt(), " is lost"));
    }
  }
  for (const auto& [attempt, step] : acknowledged_checkpoints_) {
    const server::JobRecordPtr record = state.FindJob(attempt.first);
    if (record != nullptr &&
        (record->last_checkpoint_attempt() < attempt.second ||
         (record->last_checkpoint_attempt() == attempt.second && record->last_checkpoint_step() < step))) {
      world_.Violate(absl::StrCat("the acknowledged checkpoint at step ", step, " of ", attempt.first, " is lost"));
    }
  }
}

}  // namespace ampd::sim
