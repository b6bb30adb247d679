// The functions of Simulation that inject faults and act as the users.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/state/job_rules.h"
#include "tests/server/state/core_fixtures.h"
#include "tests/sim/simulation.h"

namespace ampd::sim {

using v1::Job;

constexpr size_t kMaxJobs = 8;

void Simulation::FaultLater() {
  world_.After(world_.Millis(500, 8000), [this] {
    if (world_.faults) {
      Fault();
      FaultLater();
    }
  });
}

void Simulation::Fault() {
  world_.CountFault();
  Host& host = *hosts_[world_.Between(0, static_cast<int64_t>(hosts_.size()) - 1)];
  const int64_t kind = world_.Between(0, 9);
  world_.Trace(absl::StrCat("fault ", kind, host.name()));
  if (kind <= 1) {
    CrashServer();
    world_.After(world_.Millis(10, 40'000), [this] { StartServer(); });
  } else if (kind <= 3) {
    host.KillAgent();
    world_.After(world_.Millis(10, 25'000), [&host] { host.StartAgent(); });
  } else if (kind <= 5) {
    host.PauseAgent(world_.Millis(100, 40'000));
  } else if (kind == 6) {
    host.Lose();
    world_.After(world_.Millis(1'000, 40'000), [&host] { host.StartAgent(); });
  } else {
    CutLink();
  }
}

void Simulation::CutLink() {
  Link& link = links_[world_.Between(0, static_cast<int64_t>(links_.size()) - 1)];
  const int64_t which = world_.Between(0, 2);
  link.up_is_cut = which != 0;
  link.down_is_cut = which != 1;
  const absl::Duration length = world_.Millis(500, 35'000);
  if (!link.down_is_cut && world_.Chance(500)) {
    link.down_is_held_until = world_.now() + length;
  }
  world_.After(length, [&link] { link = Link(); });
}

void Simulation::UserLater() {
  world_.After(world_.Millis(200, 5000), [this] {
    if (world_.faults) {
      UserActs();
      UserLater();
    }
  });
}

void Simulation::UserActs() {
  if (coordinator_ == nullptr) {
    return;
  }
  const int64_t kind = world_.Between(0, 9);
  const size_t any = submissions_.empty() ? 0 : world_.Between(0, static_cast<int64_t>(submissions_.size()) - 1);
  if (kind <= 3 || submissions_.empty()) {
    if (submissions_.size() < kMaxJobs) {
      submissions_.push_back({absl::StrCat("request-", submissions_.size()), ""});
      Submit(submissions_.size() - 1);
    } else {
      Submit(any);  // Submits again, as a client that got no answer does.
    }
  } else if (kind == 4) {
    Desire(submissions_[any].job, Job::CANCEL);
  } else if (kind <= 6) {
    Desire(submissions_[any].job, kind == 5 ? Job::PAUSE : Job::RUN);
  } else if (kind <= 8) {
    Drain(hosts_[world_.Between(0, static_cast<int64_t>(hosts_.size()) - 1)]->name(), kind == 7);
  } else {
    v1::DeleteJobRequest request;
    request.set_id(submissions_[any].job);
    const auto job = coordinator_->queries().GetJob(request.id());
    if (job.ok() && server::IsTerminal((*job)->state())) {
      deleted_.insert(request.id());
      coordinator_->commands().DeleteJob(request, [](const absl::Status&) {});
    }
  }
  PumpSoon();
}

void Simulation::Submit(size_t submission) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = server::SmallSpec(absl::StrCat("job-", submission));
  request.mutable_spec()->mutable_train()->set_steps(10 + static_cast<int64_t>(submission) * 7 % 40);
  if (submission % 3 == 0) {
    *request.mutable_spec()->mutable_data()->mutable_eval() = request.spec().data().train();
    request.mutable_spec()->mutable_eval()->set_every_steps(1);
    request.mutable_spec()->mutable_train()->mutable_early_stopping()->set_patience(2);
  }
  request.mutable_spec()->set_max_retries(20);
  request.set_request_id(submissions_[submission].request_id);
  coordinator_->commands().CreateJob(request, [this, submission](const absl::StatusOr<server::JobPtr>& job) {
    // A repeated request must return the job that the first request created. If that job was deleted, the server has
    // also forgotten the request, and creates another job.
    std::string& known = submissions_[submission].job;
    if (!job.ok()) {
      return;
    }
    if (!known.empty() && known != (*job)->id() && deleted_.count(known) == 0) {
      world_.Violate("a repeated request made another job than " + known);
    }
    known = (*job)->id();
    state_changed_ = true;
  });
}

void Simulation::Desire(const std::string& id, Job::Desired desired) {
  const auto note = [this, id, desired](const absl::StatusOr<server::JobPtr>& job) {
    if (job.ok() && desired == Job::CANCEL) {
      cancelled_.insert(id);
      state_changed_ = true;
    }
  };
  if (desired == Job::CANCEL) {
    v1::CancelJobRequest request;
    request.set_id(id);
    coordinator_->commands().CancelJob(request, note);
  } else if (desired == Job::PAUSE) {
    v1::PauseJobRequest request;
    request.set_id(id);
    coordinator_->commands().PauseJob(request, note);
  } else {
    v1::ResumeJobRequest request;
    request.set_id(id);
    coordinator_->commands().ResumeJob(request, note);
  }
}

void Simulation::Drain(const std::string& worker, bool drained) {
  v1::DrainWorkerRequest drain;
  v1::UndrainWorkerRequest undrain;
  drain.set_name(worker);
  undrain.set_name(worker);
  const auto ignore = [](const absl::StatusOr<v1::Worker>&) {};
  if (drained) {
    coordinator_->sessions().DrainWorker(drain, ignore);
  } else {
    coordinator_->sessions().UndrainWorker(undrain, ignore);
  }
}

void Simulation::CalmDown() {
  world_.faults = false;
  for (Link& link : links_) {
    link = Link();
  }
  StartServer();
  for (const auto& host : hosts_) {
    host->StartAgent();
    Drain(host->name(), false);
  }
  for (size_t i = 0; i < submissions_.size(); ++i) {
    Submit(i);
    Desire(submissions_[i].job, Job::RUN);
  }
  PumpSoon();
}

bool Simulation::AllAtRest() {
  return coordinator_ != nullptr && ledger_->Read([this](const server::ClusterState& state) {
    for (const auto& [order, record] : state.jobs()) {
      if (!server::IsTerminal(record->job().state())) {
        return false;
      }
    }
    return std::all_of(hosts_.begin(), hosts_.end(), [&](const auto& host) {
      return std::all_of(host->job_folders().begin(), host->job_folders().end(), [&](const std::string& job) {
        return deleted_.count(job) == 0 || state.FindJob(job) != nullptr;
      });
    });
  });
}

}  // namespace ampd::sim
