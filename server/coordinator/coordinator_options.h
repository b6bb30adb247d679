#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/job.pb.h"
#include "base/clock.h"
#include "base/random.h"
#include "graph/exported/exported_program.h"
#include "server/state/cluster_state.h"
#include "server/state/retention.h"

namespace ampd::server {

class Ledger;

// The dependencies and settings of a coordinator, and the listeners that it calls.
struct CoordinatorOptions {
  Ledger* ledger = nullptr;
  const Clock* clock = nullptr;
  RandomSource* random = nullptr;  // Thread-safe.
  absl::Duration lease = absl::Seconds(10);
  absl::Duration lease_margin = absl::Seconds(5);
  absl::Duration suspend_limit = absl::Hours(1);
  absl::Duration local_checkpoint_wait = absl::Minutes(10);
  absl::Duration archive_after = absl::Hours(1);  // After its end a job is moved out of the hot state; zero: never.
  RetentionPolicy retention;
  absl::Duration worker_retention = absl::Hours(24 * 7);  // After its loss a worker is removed; zero: never.
  // Above either limit, submits are refused.
  size_t max_jobs_in_hot_state = 200'000;
  size_t max_spec_bytes_in_hot_state = size_t{512} << 20;
  // Protects an uploaded artifact from deletion while the returned object lives; NOT_FOUND when there is no artifact of
  // the name. Quick. May be null: then no artifact exists.
  std::function<absl::StatusOr<std::shared_ptr<void>>(const std::string& artifact)> hold_artifact;
  // Reads the exported model in an uploaded artifact that is held. Returns null if the model is left to the worker;
  // INVALID_ARGUMENT naming the field if the file is not a model. Blocks on the disk. May be null: then models are
  // accepted without reading them.
  std::function<absl::StatusOr<std::shared_ptr<const graph::ExportedModel>>(const std::string& artifact)> read_model;
  // Called on the ledger's thread, in commit order, after the changes are on disk. Must be quick. May be null. After a
  // restart on_events may report events again; (job, sequence) identifies them.
  std::function<void(const JobPtr&)> on_job;
  std::function<void(const std::string& job, const std::vector<v1::Event>&)> on_events;
  // Called for each CREATED or STATE_CHANGED event of a job, with the job as it is after the group. Not called for
  // replayed events.
  std::function<void(const v1::Job& job, const v1::Event& event)> on_job_moved;
  std::function<void(const internal::WorkerRecord&)> on_worker;
  std::function<void(const std::string& job)> on_job_deleted;
  std::function<void(const std::string& job)> on_history_deleted;  // The job's record stays.
  // The worker's stream should send CurrentDirective now. Called from any thread. May call back into the coordinator
  // only from another thread.
  std::function<void(const std::string& worker)> on_directive_due;
  // The wall clock leapt by this much, or differs this much from the newest time of the journal. Nothing is deleted by
  // its age for WallClockWatch::kQuiet. Called from the thread that calls Tick or Start. May be null.
  std::function<void(absl::Duration leap)> on_clock_leap;
  // Called after each search for jobs that can begin: how many waited, how many of them were placed. From any thread,
  // quick.
  std::function<void(size_t num_waiting, size_t num_placed, absl::Duration time)> on_placement;
  // Something about a worker that an operator should know, in one line: another agent claims its name, or its reports
  // are inconsistent. Reported once while it stays the same. From any thread, quick. May be null.
  std::function<void(const std::string& worker, const std::string& line)> on_worker_trouble;
};

}  // namespace ampd::server
