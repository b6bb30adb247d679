#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/internal/journal.pb.h"
#include "ampd/v1/job.pb.h"
#include "base/tenants.h"

namespace ampd::server {

using JobPtr = std::shared_ptr<const v1::Job>;
using JobRecordPtr = std::shared_ptr<const internal::JobRecord>;
using WorkerRecordPtr = std::shared_ptr<const internal::WorkerRecord>;

// Returns the part of a record that clients see. The pointer keeps the whole record alive.
JobPtr JobOf(const JobRecordPtr& record);

// An event of a job. `event.sequence` counts the server's events of the job from 1 without gaps.
struct JobEvent {
  std::string job;
  v1::Event event;
};

// A job that was removed for good.
struct DeletedJob {
  std::string id;
  std::string tenant;
  std::string request_id;
  std::string traceparent;  // Job.traceparent.
};

// A job whose history was deleted; its record stays.
struct DeletedHistory {
  std::string job;
  std::string traceparent;  // Job.traceparent.
};

// The effects of one update. Records are new objects; records that were handed out before never change.
struct Applied {
  // False if the update changed nothing because it had been applied before. It then needs no journal entry.
  bool changed = false;
  std::string job;            // For CreateJob: the job that this request or an earlier one with its id created.
  JobRecordPtr archived_job;  // The job that the update names, if it is in the history table.
  std::vector<JobRecordPtr> jobs;
  std::vector<JobRecordPtr> archived;  // Records to be put into the history table, or replaced there.
  std::vector<DeletedJob> deleted_jobs;
  std::vector<WorkerRecordPtr> workers;
  std::vector<std::string> removed_workers;
  std::vector<JobEvent> events;
  std::vector<DeletedHistory> deleted_histories;
  uint64_t life = 0;             // For StartLife: the new life.
  std::string server_version;    // For StartLife: the version of ampd; empty: 0.1.
  uint64_t epoch = 0;            // For RestoreServer: the new epoch.
  int64_t time_unix_micros = 0;  // When the update was asked for.
};

// The whole state of the server: jobs, workers, accepted requests. Only Apply changes it. Apply is deterministic (no
// clock, no randomness, no thread, no file): the same updates in the same order give the same state, byte for byte, and
// the same events. After a crash the events are published again, and the history of a job skips the events that it has,
// which it recognises by (job, sequence).
//
// A server has two instances: the committer's head, which Apply changes, and the readers' copy. The copy gets the
// changed records by Adopt when they are on disk. Thread-compatible.
class ClusterState {
 public:
  // Queued jobs in the order in which they are placed: higher priority first, then submit order.
  struct QueueKey {
    int32_t negative_priority;
    int64_t submit_order;
    friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
  };

  // Applies the whole update, or changes nothing and returns
  //   NOT_FOUND            no such job, worker or attempt,
  //   ALREADY_EXISTS       a different request with the same id was accepted before,
  //   FAILED_PRECONDITION  the move is not legal now, or the sender is not the current owner (reason FENCED),
  //   ABORTED              the etag is not the job's.
  absl::StatusOr<Applied> Apply(const internal::Update& update);

  // Makes the changes that Apply made to another instance.
  void Adopt(const Applied& applied);

  internal::Snapshot ToSnapshot(uint64_t index) const;
  static ClusterState FromSnapshot(const internal::Snapshot& snapshot);

  // Returns the job's record from memory, or null if there is none.
  JobRecordPtr FindJob(const std::string& id) const;
  WorkerRecordPtr FindWorker(const std::string& name) const;
  // Return the jobs of these tenants in memory that have this name, or whose id begins with this prefix: the newest
  // `limit` of the jobs with the name, and the first `limit` in the order of ids.
  std::vector<JobRecordPtr> JobsNamed(const std::string& name, size_t limit, const Tenants& tenants) const;
  std::vector<JobRecordPtr> JobsWithPrefix(const std::string& prefix, size_t limit, const Tenants& tenants) const;

  const std::map<int64_t, JobRecordPtr>& jobs() const { return jobs_; }  // By submit order.
  const std::map<std::string, WorkerRecordPtr>& workers() const { return workers_; }
  const std::map<QueueKey, JobRecordPtr>& queue() const { return queue_; }
  // Jobs with a live attempt on the worker, by submit order; the attempt is the job's newest.
  std::vector<JobRecordPtr> JobsOn(const std::string& worker) const;
  // Whether a live attempt holds the device.
  bool DeviceIsHeld(const std::string& worker, const std::string& device) const;

  int64_t next_submit_order() const { return next_submit_order_; }
  uint64_t epoch() const { return epoch_; }
  uint64_t life() const { return life_; }
  // The version of ampd that began the newest life; empty: 0.1, or none began.
  const std::string& server_version() const { return server_version_; }
  // The newest version of ampd that is known to have written the journal; empty: none but 0.1.
  const std::string& newest_server_version() const { return newest_server_version_; }
  // Whether this is the first life of a server that was restored from a backup. Workers may then still run attempts
  // that are not in this state.
  bool is_first_life_after_restore() const { return restored_in_life_ > 0 && life_ == restored_in_life_ + 1; }
  // What the unfinished jobs of a tenant are.
  struct TenantUse {
    int64_t num_jobs = 0;
    int64_t spec_bytes = 0;
  };
  TenantUse UseOf(const std::string& tenant) const;
  // The total size of the specs of all jobs in memory.
  size_t spec_bytes() const { return spec_bytes_; }
  // The latest time of any update; 0 when there was none.
  int64_t newest_time_unix_micros() const { return newest_time_unix_micros_; }
  // The request with this id that created a job of the tenant; null if there is none.
  const internal::AcceptedRequest* FindRequest(const std::string& tenant, const std::string& request_id) const;

 private:
  void PutJob(const JobRecordPtr& record);
  void PutWorker(const WorkerRecordPtr& record);
  void RemoveJob(const std::string& id);
  void Unindex(const internal::JobRecord& record);
  // Adds an unfinished job to its tenant's use or, if `sign` is -1, takes it away.
  void CountUse(const v1::Job& job, int sign);

  uint64_t epoch_ = 1;
  uint64_t life_ = 0;
  uint64_t restored_in_life_ = 0;
  std::string server_version_;
  std::string newest_server_version_;
  internal::Snapshot kept_;  // Only the fields of a newer server's snapshot that this server does not know.
  int64_t newest_time_unix_micros_ = 0;
  size_t spec_bytes_ = 0;
  std::map<std::string, TenantUse> use_;  // Of tenants that have unfinished jobs.
  int64_t next_submit_order_ = 1;
  std::map<int64_t, JobRecordPtr> jobs_;
  std::map<std::string, int64_t> order_of_;                // By id.
  std::map<std::string, std::set<int64_t>> orders_named_;  // By name.
  std::map<QueueKey, JobRecordPtr> queue_;
  std::map<std::string, std::set<int64_t>> on_worker_;
  std::map<std::string, WorkerRecordPtr> workers_;
  std::map<std::pair<std::string, std::string>, internal::AcceptedRequest> requests_;  // By tenant and request id.
};

}  // namespace ampd::server
