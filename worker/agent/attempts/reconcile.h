#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/worker.pb.h"
#include "ampd/v1/worker_service.pb.h"

// The agent's decisions: compares what the worker holds with what the server wants. Pure: no clock, no process, no
// file, no randomness. The simulation runs the same code.
namespace ampd::agent {

// One attempt that the worker holds: from its start (or refusal) until its outcome is acknowledged and nothing of it is
// left.
struct HeldAttempt {
  v1::AttemptKey key;
  std::string device;
  v1::Attempt::State state = v1::Attempt::STARTING;
  // The last commands sent to the trainer. On a new connection to the trainer, the agent sends a leave command
  // (sent_desired other than RUN) again and resets the two numbers to 0.
  v1::Job::Desired sent_desired = v1::Job::RUN;
  uint64_t sent_loss_scale_order = 0;
  uint64_t sent_gradient_request = 0;
  absl::Duration lease_deadline;  // since boot
  bool killed = false;            // a kill is in progress
  bool occupies_device = true;    // false once the last process is gone
  bool forgotten = false;         // no longer reported; kept until its telemetry is stored
};

// Everything that the worker holds.
struct Holdings {
  std::vector<HeldAttempt> attempts;
  std::vector<v1::Device> devices;
  v1::DirectiveId reflected;             // the newest directive processed before
  int64_t last_sent_boottime_nanos = 0;  // send time of the newest report; a lease renewal for a later one is ignored
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

// The actions that a directive asks for, in the order in which the agent takes them. Kills come first, then renewals,
// then starts, so that two attempts of one job never compute at once.
struct Actions {
  bool stale = false;                  // the directive is not newer than the reflected one; nothing else is set
  absl::Duration lease_deadline;       // end of the worker's lease from now on; only grows
  std::vector<v1::AttemptKey> kill;    // attempts no longer assigned here: killed without a checkpoint
  std::vector<v1::AttemptKey> forget;  // attempts whose outcome is durable or no longer expected
  std::vector<RenewAction> renew;
  std::vector<LeaveAction> leave;  // attempts to end: with a checkpoint, or cancelled
  std::vector<LossScaleAction> loss_scale;
  std::vector<SampleGradientsAction> sample_gradients;
  std::vector<RefuseAction> refuse;  // attempts that become ENDED with this outcome; no process starts
  std::vector<StartAction> start;
  std::vector<v1::AttemptKey> wait;  // attempts whose device is occupied; reported as ASSIGNED until they start
  std::vector<v1::CheckpointKey> acknowledge_checkpoints;
  std::vector<std::string> remove;        // paths below the checkpoint root
  std::vector<std::string> remove_later;  // paths where a trainer may still write: stored on disk as pending removals
};

// Returns the actions that lead from `holdings` to what `directive` asks for. Idempotent: once the actions are done,
// the same directive asks for nothing more. With `again` the same directive is considered once more, after an attempt
// ended, to start an attempt that waits for the device.
//
//   * a directive that is older than the reflected one, or the same one without `again`, changes nothing;
//   * an attempt that is held but not named by the directive is killed. Once it has ended, it is forgotten, because the
//     server no longer expects it;
//   * an attempt that has reported its outcome keeps its lease until its process is gone, whether it is named or not;
//   * an attempt that is named but not held starts on its device if that is free, waits if it is occupied, and is
//     refused if the worker has no such device. If it should no longer run, it ends without a start;
//   * the same job and attempt number with another token is another attempt;
//   * the folder "<job>" or "<job>/<attempt>" is removed once no process that writes there is left, and a checkpoint at
//     once.
//
// Deterministic: the result depends only on the inputs and the order of their fields.
Actions Reconcile(const Holdings& holdings, const v1::WorkerDirective& directive, bool again = false);

absl::Duration ToDuration(const google::protobuf::Duration& duration);

// Whether `a` and `b` name the same attempt: job, number and token.
bool SameAttempt(const v1::AttemptKey& a, const v1::AttemptKey& b);

// Whether directive `a` was issued after `b`.
bool IsNewer(const v1::DirectiveId& a, const v1::DirectiveId& b);

}  // namespace ampd::agent
