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

// Whether the command `desired` must be sent after the command `sent`. CANCEL may follow PAUSE; nothing revokes a
// command that was sent.
bool IsStronger(Job::Desired desired, Job::Desired sent) {
  return (desired == Job::PAUSE || desired == Job::CANCEL) && desired > sent;
}

v1::Outcome NoSuchDevice(const v1::AttemptDirective& directive) {
  v1::Outcome outcome;
  outcome.set_kind(v1::Outcome::FAILED);
  outcome.set_reason(v1::DEVICE_ERROR);
  outcome.set_message(directive.devices().empty()
                          ? "the server named no device for the attempt"
                          : absl::StrCat("the worker has no device '", directive.devices(0), "'"));
  outcome.set_last_step(directive.start_from().step());
  return outcome;
}

// One comparison of holdings with a directive. Its functions are called in the order in which they are declared.
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
  // Renews the worker's lease, which counts from the time when the report that the directive answers was sent. An
  // answer to a report that this agent has not sent is ignored.
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
    // An attempt that has reported its outcome computes no more, but without a lease its trainer would be stopped
    // before it has handed over its telemetry.
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
    if (const v1::NumberedLossScaleOrder& earlier = wanted.earlier_loss_scale_order();
        earlier.number() > held.sent_loss_scale_order) {
      actions_.loss_scale.push_back({held.key, earlier.number(), earlier.order()});
    }
    if (wanted.has_loss_scale_order() && wanted.loss_scale_order_number() > held.sent_loss_scale_order) {
      actions_.loss_scale.push_back({held.key, wanted.loss_scale_order_number(), wanted.loss_scale_order()});
    }
    if (wanted.gradient_request_number() > held.sent_gradient_request) {
      actions_.sample_gradients.push_back({held.key, wanted.gradient_request_number()});
    }
  }

  bool IsHeld(const v1::AttemptKey& key) const {
    return std::any_of(holdings_.attempts.begin(), holdings_.attempts.end(),
                       [&](const HeldAttempt& held) { return SameAttempt(held.key, key); });
  }

  // Whether an attempt of this job with another token still occupies a device here.
  bool JobOccupiesDevice(const std::string& job) const {
    return std::any_of(holdings_.attempts.begin(), holdings_.attempts.end(),
                       [&](const HeldAttempt& held) { return held.key.job_id() == job && held.occupies_device; });
  }

  void ConsiderWanted(const v1::AttemptDirective& wanted) {
    if (IsHeld(wanted.key()) || Contains(directive_.acknowledged_outcomes(), wanted.key())) {
      return;
    }
    if (wanted.desired() == Job::PAUSE || wanted.desired() == Job::CANCEL) {
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

  // Whether a process may still write to the folder, which is also the case between a kill and the process's end.
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
