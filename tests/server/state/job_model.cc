#include "tests/server/state/job_model.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace ampd::server {
namespace {

using JobState = v1::Job;

constexpr int kMaxRetries = 2;
constexpr int kMaxFruitless = 3;
constexpr int kAttemptsRemembered = 16;

const std::set<v1::Reason::Code> kInfrastructure = {v1::Reason::WORKER_LOST, v1::Reason::PREEMPTED,
                                                    v1::Reason::WORKER_DRAINED, v1::Reason::DEVICE_ERROR};
const std::set<v1::Reason::Code> kUserErrors = {
    v1::Reason::OUT_OF_MEMORY,       v1::Reason::NONFINITE_LOSS,  v1::Reason::LOSS_SCALE_COLLAPSED,
    v1::Reason::NONFINITE_GRADIENTS, v1::Reason::NONFINITE_STATE, v1::Reason::DIVERGED,
    v1::Reason::DATA_ERROR,          v1::Reason::SPEC_ERROR,      v1::Reason::DEADLINE};
const std::set<v1::Reason::Code> kOrders = {v1::Reason::USER_CANCELLED, v1::Reason::USER_PAUSED};

int NumberOf(const JobModel::Job& job) { return static_cast<int>(job.reported_end.size()) + (job.live ? 1 : 0); }

bool Trains(v1::Attempt::State state) { return state == v1::Attempt::RUNNING || state == v1::Attempt::SUSPENDED; }

}  // namespace

bool IsAtRestForEver(v1::Job::State state) {
  return state == JobState::SUCCEEDED || state == JobState::FAILED || state == JobState::CANCELLED;
}

bool HasLiveAttempt(v1::Job::State state) {
  return state == JobState::STARTING || state == JobState::RUNNING || state == JobState::PAUSING ||
         state == JobState::CANCELLING;
}

int JobModel::NumAttempts(const std::string& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? 0 : NumberOf(found->second);
}

std::string JobModel::Shown(const std::string& id) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return id + ":none";
  }
  const Job& job = found->second;
  return absl::StrCat(id, ":", v1::Job::State_Name(job.state),
                      job.live ? absl::StrCat("@", job.worker, "#", NumberOf(job)) : "");
}

Verdict JobModel::Create(const std::string& id) {
  return jobs_.try_emplace(id).second ? Verdict::kChanged : Verdict::kAlreadyExists;
}

Verdict JobModel::Cancel(const std::string& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return Verdict::kNotFound;
  }
  Job& job = found->second;
  if (IsAtRestForEver(job.state) || job.state == JobState::CANCELLING) {
    return Verdict::kUnchanged;
  }
  job.was_cancelled = true;
  job.state = job.live ? JobState::CANCELLING : JobState::CANCELLED;
  return Verdict::kChanged;
}

Verdict JobModel::Pause(const std::string& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return Verdict::kNotFound;
  }
  Job& job = found->second;
  if (IsAtRestForEver(job.state) || job.state == JobState::CANCELLING) {
    return Verdict::kFailedPrecondition;
  }
  if (job.wants_pause) {
    return Verdict::kUnchanged;
  }
  job.wants_pause = true;
  job.state = job.live ? JobState::PAUSING : JobState::PAUSED;
  return Verdict::kChanged;
}

Verdict JobModel::Resume(const std::string& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return Verdict::kNotFound;
  }
  Job& job = found->second;
  if (IsAtRestForEver(job.state) || job.state == JobState::CANCELLING) {
    return Verdict::kFailedPrecondition;
  }
  if (!job.wants_pause) {
    return Verdict::kUnchanged;
  }
  job.wants_pause = false;
  job.state = job.state == JobState::PAUSED ? JobState::QUEUED : job.state;
  return Verdict::kChanged;
}

Verdict JobModel::ExpireDeadline(const std::string& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return Verdict::kNotFound;
  }
  Job& job = found->second;
  if (IsAtRestForEver(job.state) || job.state == JobState::CANCELLING) {
    return Verdict::kUnchanged;
  }
  job.deadline_expired = true;
  job.state = job.live ? JobState::CANCELLING : JobState::FAILED;
  return Verdict::kChanged;
}

Verdict JobModel::ChangePriority(const std::string& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return Verdict::kNotFound;
  }
  return IsAtRestForEver(found->second.state) ? Verdict::kFailedPrecondition : Verdict::kChanged;
}

Verdict JobModel::StartOver(const std::string& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return Verdict::kNotFound;
  }
  return found->second.state == JobState::QUEUED ? Verdict::kChanged : Verdict::kUnchanged;
}

Verdict JobModel::Remove(const std::string& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return Verdict::kNotFound;
  }
  if (!IsAtRestForEver(found->second.state)) {
    return Verdict::kFailedPrecondition;
  }
  jobs_.erase(found);
  return Verdict::kChanged;
}

Verdict JobModel::Register(const std::string& name) {
  const auto [worker, is_new] = workers_.try_emplace(name);
  const bool was_lost = worker->second.lost;
  worker->second.lost = false;
  return is_new || was_lost ? Verdict::kChanged : Verdict::kUnchanged;
}

Verdict JobModel::SetDrained(const std::string& name, bool drained) {
  const auto worker = workers_.find(name);
  if (worker == workers_.end()) {
    return Verdict::kNotFound;
  }
  if (worker->second.drained == drained) {
    return Verdict::kUnchanged;
  }
  worker->second.drained = drained;
  for (auto& [id, job] : jobs_) {
    const bool computes = job.state == JobState::STARTING || job.state == JobState::RUNNING;
    job.state = drained && computes && job.worker == name ? JobState::PAUSING : job.state;
  }
  return Verdict::kChanged;
}

Verdict JobModel::Lose(const std::string& name) {
  const auto worker = workers_.find(name);
  if (worker == workers_.end()) {
    return Verdict::kNotFound;
  }
  if (worker->second.lost) {
    return Verdict::kUnchanged;
  }
  worker->second.lost = true;
  for (auto& [id, job] : jobs_) {
    if (job.live && job.worker == name) {
      EndNewest(job, v1::Outcome::GONE, v1::Reason::WORKER_LOST);
    }
  }
  return Verdict::kChanged;
}

Verdict JobModel::Assign(const std::string& id, int attempt, const std::string& name) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return Verdict::kNotFound;
  }
  Job& job = found->second;
  if (job.state != JobState::QUEUED || attempt != NumberOf(job) + 1) {
    return Verdict::kFailedPrecondition;
  }
  const auto worker = workers_.find(name);
  if (worker == workers_.end()) {
    return Verdict::kNotFound;
  }
  const bool busy = std::any_of(jobs_.begin(), jobs_.end(),
                                [&](const auto& entry) { return entry.second.live && entry.second.worker == name; });
  if (worker->second.lost || worker->second.drained || busy) {
    return Verdict::kFailedPrecondition;
  }
  job.state = JobState::STARTING;
  job.live = true;
  job.worker = name;
  job.progress = v1::Attempt::ASSIGNED;
  return Verdict::kChanged;
}

Verdict JobModel::CheckOwner(const Job& job, int attempt, bool forged) const {
  const int newest = NumberOf(job);
  if (attempt < 1 || attempt > newest || attempt <= newest - kAttemptsRemembered) {
    return Verdict::kNotFound;
  }
  return forged || attempt != newest || !job.live ? Verdict::kFailedPrecondition : Verdict::kChanged;
}

Verdict JobModel::Advance(const std::string& id, int attempt, bool forged, v1::Attempt::State to) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return Verdict::kNotFound;
  }
  Job& job = found->second;
  if (const Verdict owner = CheckOwner(job, attempt, forged); owner != Verdict::kChanged) {
    return owner;
  }
  const bool back = to == v1::Attempt::ASSIGNED || (to == v1::Attempt::STARTING && Trains(job.progress));
  if (to == job.progress || back) {
    return Verdict::kUnchanged;
  }
  job.progress = to;
  job.state = job.state == JobState::STARTING && Trains(to) ? JobState::RUNNING : job.state;
  return Verdict::kChanged;
}

Verdict JobModel::Save(const std::string& id, int attempt, bool forged, int step) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return Verdict::kNotFound;
  }
  Job& job = found->second;
  const Verdict owner = CheckOwner(job, attempt, forged);
  const bool reported_before = !forged && attempt == job.saved_attempt && step <= job.saved_step;
  if (owner == Verdict::kNotFound) {
    return owner;
  }
  if (reported_before) {
    return Verdict::kUnchanged;
  }
  if (owner == Verdict::kChanged) {
    job.saved_attempt = attempt;
    job.saved_step = step;
    job.num_fruitless = 0;
  }
  return owner;
}

Verdict JobModel::End(const std::string& id, int attempt, bool forged, v1::Outcome::Kind kind,
                      v1::Reason::Code reason) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return Verdict::kNotFound;
  }
  Job& job = found->second;
  const Verdict owner = CheckOwner(job, attempt, forged);
  if (owner == Verdict::kFailedPrecondition && !forged && attempt <= static_cast<int>(job.reported_end.size()) &&
      job.reported_end[attempt - 1]) {
    return Verdict::kUnchanged;  // The attempt reported its end earlier.
  }
  if (owner == Verdict::kChanged) {
    EndNewest(job, kind, reason);
  }
  return owner;
}

void JobModel::EndNewest(Job& job, v1::Outcome::Kind kind, v1::Reason::Code reason) {
  const int attempt = NumberOf(job);
  job.live = false;
  job.reported_end.push_back(kind != v1::Outcome::GONE);
  const JobState::State rest = job.wants_pause ? JobState::PAUSED : JobState::QUEUED;
  if (job.state == JobState::CANCELLING) {
    job.state = job.deadline_expired ? JobState::FAILED : JobState::CANCELLED;
  } else if (kind == v1::Outcome::FINISHED) {
    job.state = JobState::SUCCEEDED;
  } else if (kind == v1::Outcome::LEFT && job.state == JobState::PAUSING) {
    job.state = rest;
  } else {
    const bool counts = !kInfrastructure.contains(reason) && !kOrders.contains(reason) && !kUserErrors.contains(reason);
    job.num_fruitless = job.saved_attempt == attempt ? 0 : job.num_fruitless + 1;
    if (kUserErrors.contains(reason) || (counts && job.num_retries >= kMaxRetries) ||
        job.num_fruitless >= kMaxFruitless) {
      job.state = JobState::FAILED;
    } else {
      job.num_retries += counts ? 1 : 0;
      job.state = rest;
    }
  }
}

}  // namespace ampd::server
