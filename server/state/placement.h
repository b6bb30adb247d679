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

// All devices with everything that is compared with a job, as they were when the object was made. It shares the
// workers' records with the state, so it is made quickly while the state is locked, and examined later. Immutable.
class Fleet {
 public:
  Fleet(const ClusterState& state, LiveWorkers live);
  Fleet(Fleet&&) = default;
  Fleet& operator=(Fleet&&) = default;

  // In the order of workers' names; the devices of a worker in its own order.
  const std::vector<Candidate>& devices() const { return devices_; }

 private:
  LiveWorkers live_;
  std::vector<WorkerRecordPtr> workers_;
  std::vector<Candidate> devices_;  // Point into live_ and workers_.
};

// The number of queued jobs that are placed before this one.
int CountAhead(const ClusterState& state, const v1::Job& job);
// The same for those of the job's tenant.
int CountAheadInTenant(const ClusterState& state, const v1::Job& job);

// Explains why the job waits, with a verdict for each device of the workers that serve its tenant. `is_behind`: whether
// other queued jobs are placed before it. Pure.
v1::ExplainJobResponse ExplainWaiting(const Fleet& fleet, bool is_behind, const internal::JobRecord& record,
                                      int64_t now_unix_micros);

// Explains for each of many queued jobs why it waits, in the words of ExplainWaiting. Jobs with the same needs are
// compared with the devices only once. The number of comparisons is bounded. Single-threaded.
class PendingReasons {
 public:
  struct Options {
    const Fleet* fleet = nullptr;
    std::string first_queued;  // Id of the job that is placed first.
    int64_t now_unix_micros = 0;
    int64_t max_examined = 0;  // The most comparisons of a job with a device, unless the first job needs more.
  };
  explicit PendingReasons(Options options) : options_(std::move(options)) {}

  // Returns nothing if the job is not queued, or if the comparisons are used up.
  std::optional<v1::Pending> Find(const internal::JobRecord& record);
  int64_t num_examined() const { return num_examined_; }

 private:
  // What the comparison of a job with all devices has shown.
  struct Outlook {
    v1::DeviceVerdict best;  // The most hopeful one.
    bool fits = false;       // Whether a worker in service could run the job.
  };
  const Outlook* FindOutlook(const internal::JobRecord& record);

  const Options options_;
  std::map<std::string, Outlook> by_needs_;
  int64_t num_examined_ = 0;
};

// Returns the workers in service, each with the devices that suit a job of the tenant with this spec: of the wanted
// kind, healthy, and with access to the job's data. Devices that other jobs hold are included. Compute capability and
// memory are not checked. Pure.
std::vector<v1::Worker> MatchingWorkers(const ClusterState& state, const LiveWorkers& live, const std::string& tenant,
                                        const v1::JobSpec& spec);

}  // namespace ampd::server
