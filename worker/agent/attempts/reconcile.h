#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/worker.pb.h"
#include "ampd/v1/worker_service.pb.h"

// Decides what the agent does: compares the worker's attempts with what the server wants. Pure: no clock, no process,
// no file, no randomness. The simulation runs the same code.
namespace ampd::agent {

// An attempt that the worker holds. The worker holds every attempt that it has started or refused, until the outcome is
// acknowledged and the attempt has no process and no unsent telemetry any more.
struct HeldAttempt {
  v1::AttemptKey key;
  std::string device;
  v1::Attempt::State state = v1::Attempt::STARTING;
  // The last orders that were sent to the trainer. When the agent has connected to the trainer again, it repeats these
  // orders. If sent_desired is not RUN, it sends the order to leave again. It also sets the three numbers sent_* to 0,
  // so that Reconcile repeats the orders that have these numbers.
  v1::Job::Desired sent_desired = v1::Job::RUN;
  uint64_t sent_loss_scale = 0;  // the number of the settings that were sent last
  uint64_t sent_gradient_request = 0;
  uint64_t sent_profile_request = 0;
  absl::Duration lease_deadline;  // since boot
  bool killed = false;            // a kill is in progress
  bool occupies_device = true;    // false once the last process is gone
  bool forgotten = false;         // no longer reported; kept until its telemetry is stored
};

// The state of a worker that Reconcile compares with a directive.
struct Holdings {
  std::vector<HeldAttempt> attempts;
  std::vector<v1::Device> devices;
  v1::DirectiveId reflected;             // the newest directive that was processed
  int64_t last_sent_boottime_nanos = 0;  // send time of the newest report; lease renewals for later ones are ignored
  absl::Duration lease_deadline;         // end of the worker's lease, since boot; attempts that start get it too
  std::vector<std::string> removals;     // paths below the checkpoint root that are still to be removed
};

struct StartAction {
  v1::AttemptDirective directive;
  std::string device;
  absl::Duration lease_deadline;  // since boot
  absl::Duration suspend_limit;
};

struct RefuseAction {
  v1::AttemptKey key;
  v1::Outcome outcome;
};

struct LeaveAction {
  v1::AttemptKey key;
  v1::Job::Desired desired = v1::Job::PAUSE;
  v1::Reason::Code reason = v1::Reason::REASON_UNSPECIFIED;
};

struct LossScaleAction {
  v1::AttemptKey key;
  v1::LiveLossScale settings;
};

struct SampleGradientsAction {
  v1::AttemptKey key;
  uint64_t number = 0;
};

struct ProfileAction {
  v1::AttemptKey key;
  v1::ProfileRequest request;
};

struct RenewAction {
  v1::AttemptKey key;
  absl::Duration lease_deadline;  // since boot
  absl::Duration suspend_limit;
};

// The actions that a directive requires, in the order in which the agent carries them out. Kills come first, then lease
// renewals, then starts, so that two attempts of one job never compute at the same time.
struct Actions {
  bool stale = false;                  // the directive is not newer than the last processed one; all else is unset
  absl::Duration lease_deadline;       // end of the worker's lease from now on; only grows
  std::vector<v1::AttemptKey> kill;    // attempts no longer assigned here: killed without a checkpoint
  std::vector<v1::AttemptKey> forget;  // attempts whose outcome is durable or no longer expected
  std::vector<RenewAction> renew;
  std::vector<LeaveAction> leave;  // attempts to end: with a checkpoint, or cancelled
  std::vector<LossScaleAction> loss_scale;
  std::vector<SampleGradientsAction> sample_gradients;
  std::vector<ProfileAction> profile;
  std::vector<RefuseAction> refuse;  // attempts that become ENDED with this outcome; no process starts
  std::vector<StartAction> start;
  std::vector<v1::AttemptKey> wait;  // attempts whose device is occupied; reported as ASSIGNED until they start
  std::vector<v1::CheckpointKey> acknowledge_checkpoints;
  std::vector<std::string> remove;        // paths below the checkpoint root
  std::vector<std::string> remove_later;  // paths where a trainer may still write: stored on disk as pending removals
};

// Returns the actions that bring a worker from `holdings` to the state that `directive` asks for. Idempotent: after
// these actions, the same directive requires no further action. After an attempt has ended, the newest directive is
// processed again, with `again`, so that an attempt that waits for the device can start.
//
//   * A directive that is older than the newest processed one changes nothing. The newest processed one itself is
//     processed again only with `again`.
//   * An attempt that the worker holds but the directive does not name is killed. Once it has ended, it is forgotten,
//     because the server no longer expects it.
//   * An attempt that has reported its outcome keeps its lease until its process has exited, even if the directive does
//     not name it.
//   * An attempt that the directive names but the worker does not hold starts if its device is free, waits if the
//     device is occupied, and is refused if the worker has no such device. If it should no longer run, it ends without
//     a start, as soon as no other attempt of its job occupies a device.
//   * If two attempts have the same job and attempt number but different tokens, they are different attempts.
//   * The folder "<job>" or "<job>/<attempt>" is removed once no process can write there any more. A checkpoint is
//     removed at once.
//
// Deterministic: the result depends only on the inputs and the order of their fields.
Actions Reconcile(const Holdings& holdings, const v1::WorkerDirective& directive, bool again = false);

absl::Duration ToDuration(const google::protobuf::Duration& duration);

// Whether `a` and `b` name the same attempt: their job, attempt number and token are equal.
bool SameAttempt(const v1::AttemptKey& a, const v1::AttemptKey& b);

// Whether the server issued directive `a` after directive `b`.
bool IsNewer(const v1::DirectiveId& a, const v1::DirectiveId& b);

}  // namespace ampd::agent
