#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ampd/v1/job_service.pb.h"
#include "server/state/cluster_state.h"
#include "server/state/placement_rules.h"

namespace ampd::server {

// All devices at the moment when the object was constructed, with the facts that are compared with a job. The object
// shares the workers' records with the state, so constructing it while the state is locked is quick. Immutable.
class Fleet {
 public:
  Fleet(const ClusterState& state, LiveWorkers live);
  Fleet(Fleet&&) = default;
  Fleet& operator=(Fleet&&) = default;

  // The devices, ordered by the workers' names. Devices of one worker have the order in which the worker reports them.
  const std::vector<Candidate>& devices() const { return devices_; }

 private:
  LiveWorkers live_;
  std::vector<WorkerRecordPtr> workers_;
  std::vector<Candidate> devices_;  // Their pointers point into live_ and workers_.
};

// Returns the number of queued jobs that are placed before this one.
int CountAhead(const ClusterState& state, const v1::Job& job);
// Returns the number of queued jobs of the same tenant that are placed before this one.
int CountAheadInTenant(const ClusterState& state, const v1::Job& job);

// Explains why the job waits, with a verdict for each device of the workers that serve its tenant. `is_behind`: whether
// other queued jobs are placed before this job. Pure.
v1::ExplainJobResponse ExplainWaiting(const Fleet& fleet, bool is_behind, const internal::JobRecord& record,
                                      int64_t now_unix_micros);

// Explains for many queued jobs why each waits, in the same words as ExplainWaiting. If several jobs have the same
// needs, their needs are compared with the devices only once. The number of comparisons is bounded. Single-threaded.
class PendingReasons {
 public:
  struct Options {
    const Fleet* fleet = nullptr;
    std::string first_queued;  // Id of the job that is placed first.
    int64_t now_unix_micros = 0;
    int64_t max_examined = 0;  // Limit for comparisons of a job with a device. The first job may use more.
  };
  explicit PendingReasons(Options options) : options_(std::move(options)) {}

  // Returns why the job waits. Returns nullopt if the job is not queued, or if an answer would need more comparisons
  // than Options::max_examined allows.
  std::optional<v1::Pending> Find(const internal::JobRecord& record);
  int64_t num_examined() const { return num_examined_; }

 private:
  // The result of comparing a job with all devices.
  struct Outlook {
    v1::DeviceVerdict best;  // The verdict of the most hopeful device.
    bool fits = false;       // Whether any worker in service could run the job.
  };
  const Outlook* FindOutlook(const internal::JobRecord& record);

  const Options options_;
  std::map<std::string, Outlook> by_needs_;
  int64_t num_examined_ = 0;
};

// Returns the workers in service, each with the devices that suit a job of the tenant with this spec: devices of the
// requested kind that are healthy and have access to the job's data. Includes devices that other jobs hold. Does not
// check compute capability and memory. Pure.
std::vector<v1::Worker> MatchingWorkers(const ClusterState& state, const LiveWorkers& live, const std::string& tenant,
                                        const v1::JobSpec& spec);

}  // namespace ampd::server
