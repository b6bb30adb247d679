#include "worker/agent/attempts/reconcile.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "worker/agent/attempts/outcomes.h"

namespace ampd::agent {
namespace {

using v1::Attempt;
using v1::Job;

bool Contains(const google::protobuf::RepeatedPtrField<v1::AttemptKey>& keys, const v1::AttemptKey& key) {
  return std::any_of(keys.begin(), keys.end(), [&](const v1::AttemptKey& other) { return SameAttempt(other, key); });
}

// Whether the agent must send the order `desired` to a trainer that has received the order `sent`. A CANCEL may follow
// a PAUSE; no order is ever revoked.
bool IsStronger(Job::Desired desired, Job::Desired sent) {
  return (desired == Job::PAUSE || desired == Job::CANCEL) && desired > sent;
}

v1::Outcome NoSuchDevice(const v1::AttemptDirective& directive) {
  v1::Outcome outcome;
  outcome.set_kind(v1::Outcome::FAILED);
  outcome.set_reason(v1::Reason::DEVICE_ERROR);
  outcome.set_message(directive.devices().empty()
                          ? "the server named no device for the attempt"
                          : absl::StrCat("the worker has no device '", directive.devices(0), "'"));
  outcome.set_last_step(directive.start_from().step());
  return outcome;
}

// Compares the worker's holdings with one directive. Run() calls the other functions in the order of their declaration.
class Comparison {
 public:
  Comparison(const Holdings& holdings, const v1::WorkerDirective& directive)
      : holdings_(holdings), directive_(directive) {}

  Actions Run() {
    RenewLease();
    for (const HeldAttempt& held : holdings_.attempts) {
      CompareHeld(held);
    }
    for (const v1::AttemptDirective& wanted : directive_.attempts()) {
      ConsiderWanted(wanted);
    }
    actions_.acknowledge_checkpoints.assign(directive_.acknowledged_checkpoints().begin(),
                                            directive_.acknowledged_checkpoints().end());
    SortRemovals();
    return std::move(actions_);
  }

 private:
  // Renews the worker's lease. The directive answers one of the agent's reports, and the lease counts from the time at
  // which that report was sent. Ignores an answer to a report that this agent has not sent.
  void RenewLease() {
    lease_deadline_ = holdings_.lease_deadline;
    const int64_t from = directive_.renewal_of_boottime_nanos();
    if (from > 0 && from <= holdings_.last_sent_boottime_nanos) {
      lease_deadline_ = std::max(lease_deadline_, absl::Nanoseconds(from) + ToDuration(directive_.lease()));
    }
    actions_.lease_deadline = lease_deadline_;
  }

  const v1::AttemptDirective* FindWanted(const v1::AttemptKey& key) const {
    for (const v1::AttemptDirective& wanted : directive_.attempts()) {
      if (SameAttempt(wanted.key(), key)) {
        return &wanted;
      }
    }
    return nullptr;
  }

  void CompareHeld(const HeldAttempt& held) {
    if (held.occupies_device) {
      occupied_.insert(held.device);
    }
    const v1::AttemptDirective* wanted = FindWanted(held.key);
    // An attempt that has reported its outcome keeps its lease until its trainer exits. Without a lease the trainer
    // would be suspended, and could not send the rest of its telemetry.
    const bool may_live = (wanted != nullptr || held.state == Attempt::ENDED) && !held.killed;
    if (may_live && held.occupies_device && lease_deadline_ > held.lease_deadline) {
      actions_.renew.push_back({held.key, lease_deadline_, ToDuration(directive_.suspend_limit())});
    }
    if (held.state == Attempt::ENDED) {
      if (!held.forgotten && (wanted == nullptr || Contains(directive_.acknowledged_outcomes(), held.key))) {
        actions_.forget.push_back(held.key);
      }
    } else if (wanted == nullptr) {
      if (!held.killed) {
        actions_.kill.push_back(held.key);
      }
    } else if (!held.killed) {
      AddOrders(held, *wanted);
    }
  }

  void AddOrders(const HeldAttempt& held, const v1::AttemptDirective& wanted) {
    if (IsStronger(wanted.desired(), held.sent_desired)) {
      actions_.leave.push_back({held.key, wanted.desired(), wanted.desired_reason()});
    }
    if (wanted.live_loss_scale().number() > held.sent_loss_scale) {
      actions_.loss_scale.push_back({held.key, wanted.live_loss_scale()});
    }
    if (wanted.gradient_request_number() > held.sent_gradient_request) {
      actions_.sample_gradients.push_back({held.key, wanted.gradient_request_number()});
    }
    if (wanted.profile().number() > held.sent_profile_request) {
      actions_.profile.push_back({held.key, wanted.profile()});
    }
  }

  bool IsHeld(const v1::AttemptKey& key) const {
    return std::any_of(holdings_.attempts.begin(), holdings_.attempts.end(),
                       [&](const HeldAttempt& held) { return SameAttempt(held.key, key); });
  }

  // Whether some attempt of this job still occupies a device of this worker.
  bool JobOccupiesDevice(const std::string& job) const {
    return std::any_of(holdings_.attempts.begin(), holdings_.attempts.end(),
                       [&](const HeldAttempt& held) { return held.key.job_id() == job && held.occupies_device; });
  }

  void ConsiderWanted(const v1::AttemptDirective& wanted) {
    if (IsHeld(wanted.key()) || Contains(directive_.acknowledged_outcomes(), wanted.key())) {
      return;
    }
    if (wanted.desired() == Job::PAUSE || wanted.desired() == Job::CANCEL) {
      // As soon as this attempt is reported as ended, the server gives the job to another worker. An earlier attempt
      // of the job may still compute here, unknown to a server that was restored from a backup. So wait until it has
      // ended.
      if (JobOccupiesDevice(wanted.key().job_id())) {
        actions_.wait.push_back(wanted.key());
        return;
      }
      actions_.refuse.push_back({wanted.key(), LeftBeforeStart(wanted.desired_reason(), wanted.start_from().step())});
      return;
    }
    const std::string device = wanted.devices().empty() ? "" : wanted.devices(0);
    const bool known = std::any_of(holdings_.devices.begin(), holdings_.devices.end(),
                                   [&](const v1::Device& candidate) { return candidate.id() == device; });
    if (!known) {
      actions_.refuse.push_back({wanted.key(), NoSuchDevice(wanted)});
    } else if (occupied_.count(device) > 0 || JobOccupiesDevice(wanted.key().job_id())) {
      actions_.wait.push_back(wanted.key());
    } else {
      occupied_.insert(device);
      actions_.start.push_back({wanted, device, lease_deadline_, ToDuration(directive_.suspend_limit())});
    }
  }

  // Whether a process may still write to the folder. A killed attempt may still write until its last process has
  // exited.
  bool IsInUse(const std::string& folder) const {
    return std::any_of(holdings_.attempts.begin(), holdings_.attempts.end(), [&](const HeldAttempt& held) {
      const std::string& job = held.key.job_id();
      return held.occupies_device && (folder == job || folder == absl::StrCat(job, "/", held.key.attempt()));
    });
  }

  void SortRemovals() {
    std::set<std::string> paths(holdings_.removals.begin(), holdings_.removals.end());
    for (const v1::CheckpointKey& key : directive_.delete_checkpoints()) {
      paths.insert(key.path());
    }
    for (const std::string& path : paths) {
      (IsInUse(path) ? actions_.remove_later : actions_.remove).push_back(path);
    }
  }

  const Holdings& holdings_;
  const v1::WorkerDirective& directive_;
  absl::Duration lease_deadline_;
  std::set<std::string> occupied_;
  Actions actions_;
};

}  // namespace

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

bool SameAttempt(const v1::AttemptKey& a, const v1::AttemptKey& b) {
  return a.attempt() == b.attempt() && a.job_id() == b.job_id() && a.token() == b.token();
}

bool IsNewer(const v1::DirectiveId& a, const v1::DirectiveId& b) {
  return std::make_tuple(a.epoch(), a.number()) > std::make_tuple(b.epoch(), b.number());
}

Actions Reconcile(const Holdings& holdings, const v1::WorkerDirective& directive, bool again) {
  const bool same =
      directive.id().epoch() == holdings.reflected.epoch() && directive.id().number() == holdings.reflected.number();
  if (!IsNewer(directive.id(), holdings.reflected) && !(again && same)) {
    Actions actions;
    actions.stale = true;
    return actions;
  }
  return Comparison(holdings, directive).Run();
}

}  // namespace ampd::agent
