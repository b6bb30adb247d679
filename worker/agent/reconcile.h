#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/worker.pb.h"
#include "ampd/v1/worker_service.pb.h"

// The agent's decisions: what it has against what it should have. Pure: no clock, no process, no file, no randomness.
// The simulation runs the same code.
namespace ampd::agent {

// One attempt that the worker has, from the moment it was started (or refused) until its outcome was forgotten and
// nothing of it is left.
struct HeldAttempt {
  v1::AttemptKey key;
  std::string device;
  v1::Attempt::State state = v1::Attempt::STARTING;
  // What the trainer was told last; on a new connection to it the agent puts these back to RUN and 0.
  v1::Job::Desired told = v1::Job::RUN;
  uint64_t told_loss_scale_order = 0;
  uint64_t told_gradient_request = 0;
  absl::Duration lease_deadline;  // since boot
  bool killed = false;            // a kill is under way
  bool occupies_device = true;    // false once the last process is gone
  bool forgotten = false;         // not reported any more; stays until its telemetry is stored
};

// What the worker has.
struct Holdings {
  std::vector<HeldAttempt> attempts;
  std::vector<v1::Device> devices;
  v1::DirectiveId reflected;             // the newest directive taken in before
  int64_t last_sent_boottime_nanos = 0;  // of the newest report sent; a renewal from a later one is not believed
  absl::Duration lease_deadline;         // the worker's, since boot; what it starts counts on it
  std::vector<std::string> removals;     // paths below the checkpoint root, asked for before and still to be removed
};

struct StartAction {
  v1::AttemptDirective directive;
  std::string device;
  absl::Duration lease_deadline;
};

struct RefuseAction {
  v1::AttemptKey key;
  v1::Outcome outcome;
};

struct LeaveAction {
  v1::AttemptKey key;
  v1::Job::Desired desired = v1::Job::PAUSE;
  v1::Reason reason = v1::REASON_UNSPECIFIED;
};

struct LossScaleAction {
  v1::AttemptKey key;
  uint64_t number = 0;
  v1::LossScaleOrder order;
};

struct SampleGradientsAction {
  v1::AttemptKey key;
  uint64_t number = 0;
};

struct RenewAction {
  v1::AttemptKey key;
  absl::Duration lease_deadline;  // since boot
  absl::Duration suspend_limit;
};

// What to do about a directive, to be done in the order of the fields. Renewals go before starts and kills before
// both, so that no two attempts of one job compute at once.
struct Actions {
  bool stale = false;                  // the directive is not newer than what was reflected; nothing else is set
  absl::Duration lease_deadline;       // the worker's from now on; only grows
  std::vector<v1::AttemptKey> kill;    // no longer the worker's: everything of it ends now, without a checkpoint
  std::vector<v1::AttemptKey> forget;  // its outcome is durable, or nobody waits for it
  std::vector<RenewAction> renew;
  std::vector<LeaveAction> leave;  // checkpoint and leave, or cancel
  std::vector<LossScaleAction> loss_scale;
  std::vector<SampleGradientsAction> sample_gradients;
  std::vector<RefuseAction> refuse;  // held as ENDED with this outcome from now on; no process starts
  std::vector<StartAction> start;
  std::vector<v1::AttemptKey> wait;  // its device is still occupied; reported as ASSIGNED until it starts
  std::vector<v1::CheckpointKey> acknowledge_checkpoints;
  std::vector<std::string> remove;        // below the checkpoint root
  std::vector<std::string> remove_later;  // a trainer may still write there: to be kept, over restarts, as removals
};

// Compares `holdings` with `directive`. Safe to repeat: after the actions were done, the same directive asks for
// nothing more. A directive may be looked at again (`again`) when something ended, to start what waits for a device.
//
//   * a directive that is older than the reflected one, or the same one not `again`, changes nothing;
//   * an attempt held and not named is killed, and once ended forgotten: the server waits for nothing of it;
//   * an attempt that has told its outcome keeps its lease, named or not, until its process is gone;
//   * an attempt named and not held is started on its device if that is free, waits if it is occupied, and is refused
//     if the worker has no such device. One that should not run any more is ended without a start;
//   * the same job and attempt number with another token is another attempt;
//   * "<job>" and "<job>/<attempt>" are removed when no process is left of what writes there, a checkpoint at once.
//
// Deterministic: the result depends on the order of the inputs' fields only.
Actions Reconcile(const Holdings& holdings, const v1::WorkerDirective& directive, bool again = false);

// Whether `a` and `b` name the same attempt: job, number and token.
bool SameAttempt(const v1::AttemptKey& a, const v1::AttemptKey& b);

// Whether directive `a` was made after `b`.
bool IsNewer(const v1::DirectiveId& a, const v1::DirectiveId& b);

}  // namespace ampd::agent
