#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/internal/journal.pb.h"
#include "ampd/v1/job_service.pb.h"
#include "precision/capability.h"

// Decides whether a job may run on a device, as pure functions.
namespace ampd::server {

// Facts about one worker that has reported to this run of the server. In LiveWorkers, the key is the worker's name.
struct WorkerFacts {
  std::map<std::string, int64_t> free_bytes;  // Key: the device's id. The values of the last report.
  bool is_stopping = false;                   // Whether its agent was asked to shut down.
  // The facts are valid until this time since boot; a new report extends it.
  absl::Duration fresh_until = absl::InfiniteDuration();
};
using LiveWorkers = std::map<std::string, WorkerFacts>;

// A device, with the facts that are compared with a job.
struct Candidate {
  const internal::WorkerRecord* worker;
  const v1::Device* device;
  const WorkerFacts* facts;  // Null: the worker does not report.
  bool held;
};

// Whether the worker runs jobs of the tenant. If not, the tenant must not learn that the worker exists.
bool ServesTenant(const internal::WorkerRecord& worker, const std::string& tenant);
// Returns the data roots of the worker that jobs of the tenant may read.
std::vector<std::string> DataRootsFor(const std::string& tenant, const internal::WorkerRecord& worker);

// Whether the worker is in service and the job may run on it. If not, the verdict says why. REQUIRES: ServesTenant.
bool WorkerServes(const v1::JobSpec& spec, const Candidate& candidate, v1::DeviceVerdict* verdict);

// Whether the device is of the requested kind, is healthy, and has the job's data. If not, the verdict says why.
// `begins`: the job does not resume from a checkpoint, so it also needs the data roots of the model's file and of the
// initial weights.
bool DeviceMatches(const std::string& tenant, const v1::JobSpec& spec, bool begins, const Candidate& candidate,
                   v1::DeviceVerdict* verdict);

// Whether the job could begin on the device if nothing else ran there. If so, `choice` is the precision; if not, the
// verdict says why.
bool Suits(const internal::JobRecord& record, const std::optional<v1::Checkpoint>& start, const Candidate& candidate,
           precision::PresetChoice* choice, v1::DeviceVerdict* verdict);

// Whether a device that suits the job is free now. If so, the verdict is PLACEMENT_DUE; if not, it says why.
bool IsFreeFor(const v1::JobSpec& spec, const Candidate& candidate, v1::DeviceVerdict* verdict);

// Whether the job can begin on the device now: both Suits and IsFreeFor return true.
bool CanBegin(const internal::JobRecord& record, const std::optional<v1::Checkpoint>& start, const Candidate& candidate,
              precision::PresetChoice* choice, v1::DeviceVerdict* verdict);

// Returns a text that describes the job's needs. If two jobs have the same text, Suits and IsFreeFor have the same
// verdicts on both for every device. The verdicts may also be the same if the texts differ.
std::string NeedsOf(const internal::JobRecord& record);

// Whether the job has to wait before its next attempt. A wait longer than any retry delay is ignored, because such a
// wait means that the clock was set back meanwhile.
bool WaitsForRetry(const internal::JobRecord& record, int64_t now_unix_micros);

// Returns the checkpoint from which the job's next attempt would start: the job's newest checkpoint or, if it has none,
// the checkpoint of another job with which this job was to begin. Returns nullopt if there is neither.
std::optional<v1::Checkpoint> StartPoint(const internal::JobRecord& record);

}  // namespace ampd::server
