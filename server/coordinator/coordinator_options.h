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

// What a coordinator works with, and whom it tells.
struct CoordinatorOptions {
  Ledger* ledger = nullptr;
  const Clock* clock = nullptr;
  RandomSource* random = nullptr;  // thread-safe
  absl::Duration lease = absl::Seconds(10);
  absl::Duration lease_margin = absl::Seconds(5);
  absl::Duration suspend_limit = absl::Hours(1);
  absl::Duration local_checkpoint_wait = absl::Minutes(10);
  absl::Duration archive_after = absl::Hours(1);  // after its end a job leaves the hot state; zero: never
  RetentionPolicy retention;
  absl::Duration worker_retention = absl::Hours(24 * 7);  // after its loss a worker is removed; zero: never
  // Beyond either, submits are refused.
  size_t max_jobs_in_hot_state = 200'000;
  size_t max_spec_bytes_in_hot_state = size_t{512} << 20;
  // Keeps an uploaded artifact from being deleted while what it returns lives; NOT_FOUND when there is none of the
  // name. Quick. May be null: then no artifact is there.
  std::function<absl::StatusOr<std::shared_ptr<void>>(const std::string& artifact)> hold_artifact;
  // The exported model in an uploaded artifact, which is held; null where it is left to the worker. INVALID_ARGUMENT
  // naming the field for a file that is none. Blocks on the disk. May be null: then every model is taken unseen.
  std::function<absl::StatusOr<std::shared_ptr<const graph::ExportedModel>>(const std::string& artifact)> read_model;
  // Called on the ledger's thread, quick, in commit order, after what they tell is on disk. May be null. After a
  // restart on_events may tell again what it told before: (job, sequence) tells.
  std::function<void(const JobPtr&)> on_job;
  std::function<void(const std::string& job, const std::vector<v1::Event>&)> on_events;
  // The job as it is after the group, and one of its events CREATED and STATE_CHANGED. Not of what was replayed.
  std::function<void(const v1::Job& job, const v1::Event& event)> on_job_moved;
  std::function<void(const internal::WorkerRecord&)> on_worker;
  std::function<void(const std::string& job)> on_job_deleted;
  std::function<void(const std::string& job)> on_history_deleted;  // the job's record stays
  // The worker's stream should send CurrentDirective now. From any thread; may call back into the coordinator only
  // from another thread.
  std::function<void(const std::string& worker)> on_directive_due;
  // The wall clock has leapt by so much, or is so far from the newest time of the journal: for WallClockWatch::kQuiet
  // nothing is deleted by its age. From the thread that calls Tick or Start. May be null.
  std::function<void(absl::Duration leap)> on_clock_leap;
  // After each look for jobs that can begin: how many waited, how many of them were placed. From any thread, quick.
  std::function<void(size_t num_waiting, size_t num_placed, absl::Duration time)> on_placement;
  // Something that an operator should know of a worker, in one line: another agent claims its name, or what it reports
  // can't be true. Told once while it stays the same. From any thread, quick. May be null.
  std::function<void(const std::string& worker, const std::string& line)> on_worker_trouble;
};

}  // namespace ampd::server
