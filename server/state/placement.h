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

// Facts about one worker that reports in this life of the server. LiveWorkers maps them by the worker's name.
struct WorkerFacts {
  std::map<std::string, int64_t> free_bytes;  // By device id, as last reported.
  bool is_stopping = false;                   // Its agent was asked to end.
};
using LiveWorkers = std::map<std::string, WorkerFacts>;

// A job that can begin now, and where.
struct Placement {
  JobRecordPtr job;
  std::string worker;
  std::string device;
  precision::PresetChoice precision;
  std::optional<v1::Checkpoint> start_from;
};

// Decides which queued jobs begin now, and where. Jobs are considered by priority, then submit order; a job that fits
// nowhere does not block those behind it. A device holds one attempt. AUTO prefers a GPU, then a device that computes
// the policy natively. Pure: the same arguments give the same answer.
std::vector<Placement> PlaceJobs(const ClusterState& state, const LiveWorkers& live, int64_t now_unix_micros);

// Explains why the job waits, with a verdict for each device. REQUIRES: record is not null.
v1::ExplainJobResponse ExplainWaiting(const ClusterState& state, const LiveWorkers& live,
                                      const internal::JobRecord& record, int64_t now_unix_micros);

// The workers in service, each with the devices that a job of this spec would consider: of the wanted kind, healthy and
// with its data, whether held or not. Their compute capability and memory are not checked.
std::vector<v1::Worker> MatchingWorkers(const ClusterState& state, const LiveWorkers& live, const v1::JobSpec& spec);

// The checkpoint that the job's next attempt would start from: its newest one, else that of another job with which it
// begins. Nothing if there is neither.
std::optional<v1::Checkpoint> StartPoint(const internal::JobRecord& record);

}  // namespace ampd::server
