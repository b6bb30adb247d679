#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "precision/capability.h"
#include "server/state/cluster_state.h"
#include "server/state/placement_rules.h"

namespace ampd::server {

// A job that can begin now, and the device for it.
struct Placement {
  JobRecordPtr job;
  std::string worker;
  std::string device;
  precision::PresetChoice precision;
  std::optional<v1::Checkpoint> start_from;
};

// The waiting jobs and the free devices, kept up to date one record at a time. Decides which jobs begin now, and where.
// Jobs are considered by priority, then submit order; a job that fits nowhere does not block the jobs after it. A
// device holds one attempt. A job that may run on a GPU or a CPU gets a GPU if possible; among the devices of one kind,
// those that compute its policy natively come first.
//
// Place compares only what changed since the last call: a changed job with the free devices, and a changed device with
// the waiting jobs. Its decisions are the same as those of a new table that was filled from the same records.
//
//   1. Put*   -> the record is marked as changed
//   2. Place  -> placements; each job and its device are reserved
//   3. Settle -> the placement was committed or refused: the reservation ends
//   4. PutJob -> the job's record, as it is after the commit or refusal
//
// Thread-compatible.
class PlacementTable {
 public:
  // These functions store the newest record of a job or a worker, or the newest facts about a worker. Null or nullopt:
  // the job, the worker or the facts no longer exist.
  void PutJob(const std::string& id, const JobRecordPtr& record);
  void PutWorker(const std::string& name, const WorkerRecordPtr& record);
  // `now` is the time since boot.
  void PutFacts(const std::string& worker, std::optional<WorkerFacts> facts, absl::Duration now);

  // Decides which waiting jobs begin now, and reserves their devices.
  std::vector<Placement> Place(int64_t now_unix_micros, absl::Duration now_since_boot);
  // Ends the reservation of the job's placement, if it has one.
  void Settle(const std::string& job);

  // Returns the number of jobs that are queued and have no reservation.
  size_t num_waiting() const { return queue_.size(); }
  // Returns "worker/device" for each free device. If several devices suit a job equally well, the one that comes first
  // here is preferred.
  std::vector<std::string> FreeDevices() const;
  // Returns the number of comparisons of a job with a device so far.
  int64_t num_examined() const { return num_examined_; }

 private:
  using QueueKey = ClusterState::QueueKey;
  // A worker's name and the index of its device. Its order decides between equally good devices.
  using DeviceKey = std::pair<std::string, int>;
  // A worker's name and the id of its device.
  using DeviceName = std::pair<std::string, std::string>;
  struct WorkerEntry {
    WorkerRecordPtr record;  // Null: the worker reports, but is not registered.
    std::optional<WorkerFacts> facts;
  };

  void AddJob(const JobRecordPtr& record);
  void RemoveJob(const JobRecordPtr& record);
  void Hold(const std::string& worker, const std::string& device);
  void Release(const std::string& worker, const std::string& device);
  // Determines which of the worker's devices are free. Marks a free device as changed if it was not free before this
  // call, or is in `changed`.
  void RefreshWorker(const std::string& name, const std::set<std::string>& changed);
  // Marks as changed the jobs whose wait for a retry has ended.
  void EndWaits(int64_t now_unix_micros);
  // Returns the first job in the queue, at or after `key`, that has to be compared with a device.
  std::optional<QueueKey> NextToExamine(const QueueKey& key) const;
  // Returns a placement on the best device on which the job can begin; nullopt if there is none.
  std::optional<Placement> BestPlacement(const JobRecordPtr& record, const std::set<DeviceKey>& devices,
                                         absl::Duration now);
  void Reserve(const Placement& placement);

  std::map<std::string, JobRecordPtr> jobs_;  // Queued jobs, and jobs with a live attempt. Key: the job's id.
  std::map<QueueKey, JobRecordPtr> queue_;
  std::set<std::pair<int64_t, QueueKey>> waits_;  // Queued jobs that wait for a retry, each with the end of its wait.
  std::map<std::string, WorkerEntry> workers_;
  std::map<DeviceName, int> num_holds_;         // How many live attempts and reservations hold each device.
  std::map<std::string, DeviceName> reserved_;  // Key: the job's id.
  std::set<DeviceKey> free_;                    // Usable devices that nothing holds.
  std::set<QueueKey> changed_jobs_;             // A subset of queue_.
  std::set<DeviceKey> changed_devices_;         // A subset of free_.
  int64_t num_examined_ = 0;
};

}  // namespace ampd::server
