#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ampd/v1/job_service.pb.h"
#include "precision/capability.h"
#include "server/state/cluster_state.h"

namespace ampd::server {

// What is known of the workers that report in this life of the server, by name.
struct WorkerFacts {
  std::map<std::string, int64_t> free_bytes;  // by device id, as last reported
  bool is_stopping = false;                   // its agent was asked to end
};
using LiveWorkers = std::map<std::string, WorkerFacts>;

// One job that can begin now.
struct Placement {
  JobRecordPtr job;
  std::string worker;
  std::string device;
  precision::PresetChoice precision;
  std::optional<v1::Checkpoint> start_from;
};

// Which queued jobs begin now, and where. Jobs are taken by priority, then submit order; one that fits nowhere does not
// hold up those behind it. A device holds one attempt. AUTO prefers a GPU, then a device that computes the policy
// natively. Pure: the same arguments give the same answer.
std::vector<Placement> PlaceJobs(const ClusterState& state, const LiveWorkers& live, int64_t now_unix_micros);

// Why the job waits, with a verdict for each device. REQUIRES: record is not null.
v1::ExplainJobResponse ExplainWaiting(const ClusterState& state, const LiveWorkers& live,
                                      const internal::JobRecord& record, int64_t now_unix_micros);

// The workers that serve now, each with those of its devices that a job of this spec would look at: of the wanted kind,
// healthy, with its data, held or not. What they compute and how much memory they have is not asked.
std::vector<v1::Worker> MatchingWorkers(const ClusterState& state, const LiveWorkers& live, const v1::JobSpec& spec);

// What the job's next attempt would go on from: its newest checkpoint, that of another job with which it begins, or
// nothing.
std::optional<v1::Checkpoint> StartPoint(const internal::JobRecord& record);

}  // namespace ampd::server
