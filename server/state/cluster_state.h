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
#include "base/api/tenants.h"

namespace ampd::server {

using JobPtr = std::shared_ptr<const v1::Job>;
using JobRecordPtr = std::shared_ptr<const internal::JobRecord>;
using WorkerRecordPtr = std::shared_ptr<const internal::WorkerRecord>;

// Returns the part of a record that clients see. The pointer keeps the whole record alive.
JobPtr JobOf(const JobRecordPtr& record);

// An event of a job. `event.sequence` numbers the job's events from the server, beginning with 1, without gaps.
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

// The effects of one update. Changed records are new objects; records that readers already have never change.
struct Applied {
  // False if the update had already been applied and so changed nothing. It then needs no journal entry.
  bool changed = false;
  std::string job;            // For CreateJob: the id of the new job; for a repeated request, of the earlier one.
  JobRecordPtr archived_job;  // The job that the update names, if it is in the history table.
  std::vector<JobRecordPtr> jobs;
  std::vector<JobRecordPtr> archived;  // Records to add to the history table, or to replace there.
  std::vector<DeletedJob> deleted_jobs;
  std::vector<WorkerRecordPtr> workers;
  std::vector<std::string> removed_workers;
  std::vector<JobEvent> events;
  std::vector<DeletedHistory> deleted_histories;
  uint64_t life = 0;             // For StartLife: the number of the new life, which is one run of the server.
  std::string server_version;    // For StartLife: the version of ampd; empty: version 0.1.
  uint64_t epoch = 0;            // For RestoreServer: the new epoch.
  int64_t time_unix_micros = 0;  // When the update was requested.
};

// The whole state of the server: jobs, workers, accepted requests. Only Apply changes it. Apply is deterministic: it
// uses no clock, random numbers, threads or files. The same updates in the same order give the same state, byte for
// byte, and the same events. After a crash the events are published again. The history of a job skips the events that
// it already has, which it recognises by (job, sequence).
//
// A server has two instances: the committer's head, which Apply changes, and the readers' copy. Adopt adds changed
// records to the copy when they are on disk. Thread-compatible.
class ClusterState {
 public:
  // The key that sorts queued jobs by placement order: higher priority first, then submit order.
  struct QueueKey {
    int32_t negative_priority;
    int64_t submit_order;
    friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
  };

  // Applies the whole update. On an error, changes nothing and returns
  //   NOT_FOUND            no such job, worker or attempt,
  //   ALREADY_EXISTS       a different request with this id was accepted earlier,
  //   FAILED_PRECONDITION  the job's state does not allow the change, or the sender is not the current owner (FENCED),
  //   ABORTED              the etag is not the job's.
  absl::StatusOr<Applied> Apply(const internal::Update& update);

  // Makes the changes to this instance that Apply has made to another one.
  void Adopt(const Applied& applied);

  internal::Snapshot ToSnapshot(uint64_t index) const;
  static ClusterState FromSnapshot(const internal::Snapshot& snapshot);

  // Returns the job's record from memory, or null if there is none.
  JobRecordPtr FindJob(const std::string& id) const;
  WorkerRecordPtr FindWorker(const std::string& name) const;
  // The next two functions return jobs in memory that belong to these tenants. The first returns the newest `limit`
  // jobs with this name. The second returns the first `limit` jobs, in the order of ids, whose id begins with this
  // prefix.
  std::vector<JobRecordPtr> JobsNamed(const std::string& name, size_t limit, const Tenants& tenants) const;
  std::vector<JobRecordPtr> JobsWithPrefix(const std::string& prefix, size_t limit, const Tenants& tenants) const;

  const std::map<int64_t, JobRecordPtr>& jobs() const { return jobs_; }  // The key is the submit order.
  const std::map<std::string, WorkerRecordPtr>& workers() const { return workers_; }
  const std::map<QueueKey, JobRecordPtr>& queue() const { return queue_; }
  // Returns the jobs whose newest attempt is live on the worker, by submit order.
  std::vector<JobRecordPtr> JobsOn(const std::string& worker) const;
  // Whether a live attempt holds the device.
  bool DeviceIsHeld(const std::string& worker, const std::string& device) const;

  int64_t next_submit_order() const { return next_submit_order_; }
  uint64_t epoch() const { return epoch_; }
  uint64_t life() const { return life_; }
  // The version of the server that last recorded its start (StartLife); empty if no server did, or if that was ampd
  // 0.1.
  const std::string& server_version() const { return server_version_; }
  // The newest version of ampd that is known to have written the journal; empty if only ampd 0.1 wrote it.
  const std::string& newest_server_version() const { return newest_server_version_; }
  // Whether this is the first life (run) of a server that was restored from a backup. Workers may then still run
  // attempts that are not in this state.
  bool is_first_life_after_restore() const { return restored_in_life_ > 0 && life_ == restored_in_life_ + 1; }
  // How many unfinished jobs a tenant has, and how large their specs are together.
  struct TenantUse {
    int64_t num_jobs = 0;
    int64_t spec_bytes = 0;
  };
  TenantUse UseOf(const std::string& tenant) const;
  // The total size of the specs of all jobs in memory.
  size_t spec_bytes() const { return spec_bytes_; }
  // The latest time of any update; 0 when there was none.
  int64_t newest_time_unix_micros() const { return newest_time_unix_micros_; }
  // Returns the request with this id that created a job of the tenant; null if there is none.
  const internal::AcceptedRequest* FindRequest(const std::string& tenant, const std::string& request_id) const;

 private:
  void PutJob(const JobRecordPtr& record);
  void PutWorker(const WorkerRecordPtr& record);
  void RemoveJob(const std::string& id);
  void Unindex(const internal::JobRecord& record);
  // Adds an unfinished job to its tenant's totals. If `sign` is -1, subtracts the job.
  void CountUse(const v1::Job& job, int sign);

  uint64_t epoch_ = 1;
  uint64_t life_ = 0;
  uint64_t restored_in_life_ = 0;
  std::string server_version_;
  std::string newest_server_version_;
  internal::Snapshot kept_;  // Only the fields of a newer server's snapshot that are unknown here.
  int64_t newest_time_unix_micros_ = 0;
  size_t spec_bytes_ = 0;
  std::map<std::string, TenantUse> use_;  // Only tenants that have unfinished jobs.
  int64_t next_submit_order_ = 1;
  std::map<int64_t, JobRecordPtr> jobs_;
  std::map<std::string, int64_t> order_of_;                // Maps a job's id to its submit order.
  std::map<std::string, std::set<int64_t>> orders_named_;  // Maps a name to the submit orders of its jobs.
  std::map<QueueKey, JobRecordPtr> queue_;
  std::map<std::string, std::set<int64_t>> on_worker_;
  std::map<std::string, WorkerRecordPtr> workers_;
  std::map<std::pair<std::string, std::string>, internal::AcceptedRequest> requests_;  // Key: tenant and request id.
};

}  // namespace ampd::server
