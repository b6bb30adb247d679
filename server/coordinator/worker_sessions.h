#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/v1/worker_admin_service.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/clock.h"
#include "server/coordinator/state_listener.h"
#include "server/coordinator/worker_session.h"
#include "server/ledger/ledger.h"
#include "server/state/liveness.h"
#include "server/state/placement_rules.h"

namespace ampd::server {

// Communicates with the workers: keeps the last report of each agent and the leases, and builds the directives. It
// decides which agent has a worker's name, turns reports into updates, and answers them. Operators list, drain and
// remove workers through it. Expiry, not this class, decides when a worker is lost.
//
//   1. worker: report             -> HandleReport: its facts are committed, the answer is the directive, which renews
//                                    the lease
//   2. the facts are on disk      -> StateListener::OnDirectiveDue(worker)
//   3. the worker's stream sends CurrentDirective(worker), which acknowledges the facts
//
// A session begins with the worker's first report, or at the start of the server if the worker is already registered.
// It ends when the worker is removed. Thread-safe.
class WorkerSessions {
 public:
  struct Options {
    Ledger* ledger = nullptr;
    const Clock* clock = nullptr;
    StateListener* listener = nullptr;
    // Called with a worker's name when the result of FindFacts for the worker has changed. Called without a lock; must
    // be quick.
    std::function<void(const std::string& worker)> on_facts_changed;
    absl::Duration lease;
    absl::Duration lease_margin;
    absl::Duration suspend_limit;
  };
  using WorkerDone = std::function<void(absl::StatusOr<v1::Worker>)>;
  using Done = std::function<void(absl::Status)>;

  explicit WorkerSessions(const Options& options) : options_(options), liveness_(options.lease, options.lease_margin) {}

  // Records the start of the server in the journal, and gives every lease its full duration from now on. REQUIRES:
  // called once, after the ledger's Start and before all other functions. Blocks until the record is on disk.
  absl::Status Start();

  // Processes a report and returns the directive that renews the worker's lease. A later directive acknowledges the
  // report's facts, once they are on disk. These errors end the worker's stream:
  //
  //   INVALID_ARGUMENT     the registration is not valid (CheckRegistration), or too large (CheckReportSizes)
  //   FAILED_PRECONDITION  the server and the agent have no protocol version in common (CheckProtocol)
  //   ALREADY_EXISTS       another agent has the name, and its worker is not lost (WORKER_NAME_IN_USE)
  //   ABORTED              a newer incarnation of this agent has connected (REPLACED), or the worker has followed a
  //                        server of a later epoch (SERVER_SUPERSEDED)
  //
  // If a newer report was already processed, this report is ignored, and the directive renews no lease. Facts about an
  // attempt that can't be true are skipped.
  absl::StatusOr<v1::WorkerDirective> HandleReport(const v1::WorkerReport& report);
  // Returns the current directive for a worker, without renewing its lease. NOT_FOUND if this incarnation of the agent
  // did not send the worker's last report, or if the report came before the server was restarted. A directive holds
  // attempt tokens, which only that incarnation may know.
  absl::StatusOr<v1::WorkerDirective> CurrentDirective(const std::string& worker, const std::string& incarnation);

  // The calls of operators, which worker_admin_service.proto documents. `done` is called exactly once, on the ledger's
  // thread, or on the caller's if the ledger is full; it must be quick.
  // `visible`: the caller's tenants. For the caller, only workers that serve one of them, and only jobs of these
  // tenants, exist.
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers(const v1::ListWorkersRequest& request,
                                                      const Tenants& visible = Tenants::All()) const;
  // Returns the tenants that the worker serves. NOT_FOUND (WORKER_NOT_FOUND) if there is no such worker.
  absl::StatusOr<Tenants> TenantsOf(const std::string& worker) const;
  void DrainWorker(const v1::DrainWorkerRequest& request, WorkerDone done);
  void UndrainWorker(const v1::UndrainWorkerRequest& request, WorkerDone done);
  void RemoveWorker(const v1::RemoveWorkerRequest& request, Done done);

  // Returns the workers whose last report is younger than the lease.
  LiveWorkers Live() const;
  // Returns the facts in the worker's last report, however old that is. Returns nullopt if the worker has not reported
  // yet or its loss is being committed.
  std::optional<WorkerFacts> FindFacts(const std::string& worker) const;

  // Returns the step of the attempt in the worker's last report, or 0 if the report does not contain the attempt.
  int64_t ReportedStep(const std::string& worker, const std::string& job, int32_t attempt) const;

  // Returns the workers whose lease and margin have run out, except those whose loss is already being committed. The
  // caller commits the loss of the returned workers. From now on no report renews their leases, so the leases are still
  // expired when the loss is on disk.
  std::vector<std::string> BeginLosses();
  // Call this if the state refused to record the worker as lost. The worker may then renew its lease again. If the
  // worker is not registered, its session ends, because nothing else would ever end it.
  void AbandonLoss(const std::string& worker, bool is_registered);

  // Processes what the ledger has published. Returns the workers whose directive may have changed.
  std::set<std::string> OnPublished(const Publication& publication);

 private:
  // Returns the worker as clients see it, or NOT_FOUND (WORKER_NOT_FOUND).
  absl::StatusOr<v1::Worker> FindView(const std::string& worker) const;
  void CommitDrained(const std::string& worker, bool drained, WorkerDone done);
  // Refuses a report of a second agent that uses the worker's name. Otherwise both agents would run the same attempts.
  absl::Status CheckAgent(const v1::WorkerReport& report, const WorkerSession& session) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the worker has been silent for so long that another agent may take its name.
  bool IsSilent(const WorkerSession& session, const internal::WorkerRecord* record) const;
  // Stores the report in the session and sets `is_new` to true. A report that is not newer than the stored one is not
  // stored, and `is_new` becomes false.
  absl::Status AdoptReport(const v1::WorkerReport& report, WorkerSession* session, bool* is_new)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AdoptIncarnation(const v1::WorkerReport& report, WorkerSession* session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecordRival(const v1::WorkerReport& report, const absl::Status& refusal, WorkerSession* session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportOddity(const std::string& worker, const std::string& oddity, WorkerSession* session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::WorkerDirective NextDirective(const std::string& worker, WorkerSession* session, bool renew)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<WorkerFacts> FactsOf(const WorkerSession& session) const;
  // Returns the earliest time since boot at which a rival's last claim still counts. A rival (another agent that claims
  // a worker's name) with an older claim is not shown.
  absl::Duration RivalsSince() const;

  const Options options_;
  mutable absl::Mutex mutex_;
  uint64_t life_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, WorkerSession> sessions_ ABSL_GUARDED_BY(mutex_);
  Liveness liveness_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_directive_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace ampd::server
