#pragma once

#include "absl/status/status.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/expiry.h"
#include "server/coordinator/job_commands.h"
#include "server/coordinator/job_queries.h"
#include "server/coordinator/scheduler.h"
#include "server/coordinator/uploaded_model.h"
#include "server/coordinator/worker_sessions.h"

namespace ampd::server {

// Owns the parts that decide how the state changes: the commands of clients, the sessions of workers, the scheduler and
// the expiry. Callers use these parts directly. The coordinator itself decides nothing. The ledger publishes records,
// and the coordinator forwards them to the parts and to the listener.
//
//   1. client: commands().CreateJob -> committed, and answered; the scheduler places it if a device is free
//   2. OnDirectiveDue(worker)       -> the stream sends sessions().CurrentDirective(worker)
//   3. worker: report               -> sessions().HandleReport: facts are committed, the lease is renewed
//   4. the facts are on disk        -> OnDirectiveDue(worker): the next directive acknowledges them
//
// Tick must be called every few hundred milliseconds, by one thread. The parts are thread-safe except where their
// headers say otherwise.
class Coordinator {
 public:
  using Options = CoordinatorOptions;

  // Constructs a coordinator and registers it as the listener of the ledger. REQUIRES: options.listener, which listens
  // to the coordinator, is set.
  explicit Coordinator(const Options& options);

  // Records in the journal that a new run of the server's process begins. Call it once, before anything else and after
  // the ledger's Start. Blocks until the record is on disk. In the first run after a restore from a backup, the
  // scheduler places no job until a lease and the margin have passed.
  absl::Status Start();
  // Calls Expiry::Tick and Scheduler::Wake.
  void Tick();

  JobCommands& commands() { return commands_; }
  const JobQueries& queries() const { return queries_; }
  WorkerSessions& sessions() { return sessions_; }
  const ModelFinder& models() const { return models_; }
  Scheduler& scheduler() { return scheduler_; }
  const Expiry& expiry() const { return expiry_; }

 private:
  void OnPublished(const Publication& publication);

  const Ledger* const ledger_;
  const Clock* const clock_;
  const absl::Duration lease_;
  const absl::Duration lease_margin_;
  StateListener* const listener_;
  const ModelFinder models_;
  WorkerSessions sessions_;
  const JobQueries queries_;
  JobCommands commands_;
  Scheduler scheduler_;
  Expiry expiry_;
};

}  // namespace ampd::server
