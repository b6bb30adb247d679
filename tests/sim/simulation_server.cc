// The functions of Simulation that run the server and the network to it.
#include <algorithm>
#include <utility>

#include "server/state/attempt_tokens.h"
#include "server/state/job_rules.h"
#include "tests/sim/simulation.h"

namespace ampd::sim {
namespace {

// Implements Bug::APPEND_LOST: a journal that reports each append as done, but writes it only together with the next
// append.
class LateJournal final : public server::Journal {
 public:
  explicit LateJournal(std::unique_ptr<server::Journal> journal) : journal_(std::move(journal)) {}
  absl::StatusOr<Recovered> Recover() override { return journal_->Recover(); }
  absl::Status Append(const server::JournalGroup& group) override {
    const absl::Status status = has_held_ ? journal_->Append(held_) : absl::OkStatus();
    held_ = group;
    has_held_ = true;
    return status;
  }
  absl::Status Compact(uint64_t index, const std::string& snapshot) override {
    return journal_->Compact(index, snapshot);
  }
  absl::StatusOr<std::optional<std::string>> FindArchived(const std::string& id) override {
    return journal_->FindArchived(id);
  }
  absl::StatusOr<std::vector<std::string>> FindArchivedNamed(const std::string& name, int limit) override {
    return journal_->FindArchivedNamed(name, limit);
  }
  absl::StatusOr<std::vector<std::string>> FindArchivedWithPrefix(const std::string& prefix, int limit) override {
    return journal_->FindArchivedWithPrefix(prefix, limit);
  }
  absl::StatusOr<int64_t> CountArchived() override { return journal_->CountArchived(); }
  absl::StatusOr<std::vector<std::string>> ListArchived(int64_t before, int limit) override {
    return journal_->ListArchived(before, limit);
  }
  absl::StatusOr<std::vector<std::string>> ListEnded(server::EndPosition after, int64_t before, int limit) override {
    return journal_->ListEnded(after, before, limit);
  }
  bool HasRoomForSubmits() override { return true; }

 private:
  const std::unique_ptr<server::Journal> journal_;
  server::JournalGroup held_;
  bool has_held_ = false;
};

}  // namespace

void Simulation::StartServer() {
  if (coordinator_ != nullptr) {
    return;
  }
  server::Ledger::Options ledger;
  ledger.journal = std::make_unique<server::MemoryJournal>(disk_);
  if (world_.bug() == Bug::APPEND_LOST) {
    ledger.journal = std::make_unique<LateJournal>(std::move(ledger.journal));
  } else {
    ledger.snapshot_every = 40;
  }
  auto opened = server::Ledger::Open(std::move(ledger));
  if (!opened.ok()) {
    return world_.Violate("the server can't start: " + std::string(opened.status().message()));
  }
  ledger_ = *std::move(opened);
  server::Coordinator::Options options;
  options.ledger = ledger_.get();
  options.clock = &world_.clock();
  options.random = server_random_.get();
  options.lease = absl::Seconds(10);
  options.lease_margin = absl::Seconds(5);
  options.listener = this;
  coordinator_ = std::make_unique<server::Coordinator>(options);
  ledger_->PublishReplayed();
  if (const absl::Status status = coordinator_->Start(); !status.ok()) {
    return world_.Violate("the server can't start");
  }
  ++life_;
  state_changed_ = true;
  Tick(life_);
}

void Simulation::CrashServer() {
  coordinator_.reset();
  ledger_.reset();
  pump_is_due_ = false;
  placement_is_due_ = false;
}

// Schedules one run of the committer some milliseconds later, because an fsync takes time.
void Simulation::PumpSoon() {
  if (std::exchange(pump_is_due_, true)) {
    return;
  }
  world_.After(world_.Millis(1, 40), [this, life = life_] {
    if (coordinator_ == nullptr || life != life_) {
      return;
    }
    pump_is_due_ = false;
    if (ledger_->CommitGroup()) {
      PlaceSoon();
      PumpSoon();
    }
  });
}

// Schedules one run of the scheduler. The scheduler's thread runs some time after it was woken, so it may decide on
// records that are outdated when the committer applies its assignments.
void Simulation::PlaceSoon() {
  if (std::exchange(placement_is_due_, true)) {
    return;
  }
  world_.After(world_.Millis(0, 20), [this, life = life_] {
    if (coordinator_ == nullptr || life != life_) {
      return;
    }
    placement_is_due_ = false;
    if (coordinator_->scheduler().RunOnce() > 0) {
      PumpSoon();
    }
  });
}

void Simulation::Tick(int life) {
  if (coordinator_ == nullptr || life != life_) {
    return;
  }
  coordinator_->Tick();
  PlaceSoon();
  PumpSoon();
  world_.After(absl::Seconds(1), [this, life] { Tick(life); });
}

void Simulation::OnEvents(const std::string& job, const std::vector<v1::Event>& events) {
  state_changed_ = true;
  for (const v1::Event& event : events) {
    world_.Trace(job + std::to_string(event.sequence()) + v1::Job::State_Name(event.to_state()));
  }
}

void Simulation::OnDirectiveDue(const std::string& worker) {
  world_.After(world_.Millis(1, 5), [this, worker, life = life_] {
    if (coordinator_ == nullptr || life != life_) {
      return;
    }
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i]->name() != worker) {
        continue;
      }
      if (const auto directive = coordinator_->sessions().CurrentDirective(worker, hosts_[i]->incarnation());
          directive.ok()) {
        SendDown(i, *directive, nullptr);
      }
    }
  });
}

// Delivers a message by calling `arrive`, after a delay of at least `held`. Randomly loses the message, delivers it
// twice or delays it further. If `is_cut`, always loses it.
void Simulation::Deliver(bool is_cut, absl::Duration held, std::function<void()> arrive) {
  if (is_cut) {
    return;
  }
  int copies = 1;
  if (world_.faults && world_.Chance(60)) {
    copies = world_.Chance(500) ? 0 : 2;
    world_.CountFault();
  }
  for (int i = 0; i < copies; ++i) {
    const bool slow = world_.faults && world_.Chance(40);
    world_.After(held + (slow ? world_.Millis(200, 25'000) : world_.Millis(1, 30)), arrive);
  }
}

void Simulation::SendUp(size_t host, const v1::WorkerReport& report) {
  // If the server or the agent restarts, the stream ends, and messages in flight are lost.
  Deliver(links_[host].up_is_cut, absl::ZeroDuration(), [this, host, report, life = life_] {
    if (coordinator_ == nullptr || life != life_ || report.incarnation() != hosts_[host]->incarnation()) {
      return;
    }
    const auto directive = coordinator_->sessions().HandleReport(report);
    PlaceSoon();
    PumpSoon();
    if (directive.ok()) {
      SendDown(host, *directive, &report);
    }
  });
}

void Simulation::SendDown(size_t host, const v1::WorkerDirective& sent, const v1::WorkerReport* answered) {
  v1::WorkerDirective directive = sent;
  if (world_.bug() == Bug::ACKNOWLEDGED_AT_ONCE && answered != nullptr) {
    for (const v1::AttemptReport& attempt : answered->attempts()) {
      if (attempt.state() == v1::Attempt::ENDED) {
        *directive.add_acknowledged_outcomes() = attempt.key();
      }
    }
  }
  const Link& link = links_[host];
  const absl::Duration held = std::max(absl::ZeroDuration(), link.down_is_held_until - world_.now());
  Deliver(link.down_is_cut, held, [this, host, directive, incarnation = hosts_[host]->incarnation()] {
    if (hosts_[host]->incarnation() == incarnation) {
      hosts_[host]->Receive(directive);
    }
  });
}

std::optional<v1::AttemptKey> Simulation::CurrentKey(const std::string& job) const {
  if (coordinator_ == nullptr) {
    return std::nullopt;
  }
  const server::JobRecordPtr record =
      ledger_->Read([&](const server::ClusterState& state) { return state.FindJob(job); });
  if (record == nullptr || !server::IsActive(record->job().state())) {
    return std::nullopt;
  }
  return server::NewestKey(*record);
}

}  // namespace ampd::sim
