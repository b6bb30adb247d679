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

// Whether a job may run on a device, as pure functions.
namespace ampd::server {

// Facts about one worker that reports in this life of the server. LiveWorkers has them by the worker's name.
struct WorkerFacts {
  std::map<std::string, int64_t> free_bytes;  // By device id, as last reported.
  bool is_stopping = false;                   // Its agent was asked to end.
  // The facts count until this time since boot, unless the worker reports again.
  absl::Duration fresh_until = absl::InfiniteDuration();
};
using LiveWorkers = std::map<std::string, WorkerFacts>;

// A device with everything that is compared with a job.
struct Candidate {
  const internal::WorkerRecord* worker;
  const v1::Device* device;
  const WorkerFacts* facts;  // Null: the worker does not report.
  bool held;
};

// Whether the worker runs jobs of the tenant. If not, the tenant must not learn that the worker exists.
bool ServesTenant(const internal::WorkerRecord& worker, const std::string& tenant);
// The data roots of the worker that jobs of the tenant may read.
std::vector<std::string> DataRootsFor(const std::string& tenant, const internal::WorkerRecord& worker);

// Returns true if the worker is in service and the job may run on it. If not, the verdict says why. REQUIRES:
// ServesTenant.
bool WorkerServes(const v1::JobSpec& spec, const Candidate& candidate, v1::DeviceVerdict* verdict);

// Returns true if the device is of the wanted kind, healthy, and has the job's data. If not, the verdict says why. If
// `begins`, the job does not resume from a checkpoint, so it also needs the data roots of the model's file and of the
// initial weights.
bool DeviceMatches(const std::string& tenant, const v1::JobSpec& spec, bool begins, const Candidate& candidate,
                   v1::DeviceVerdict* verdict);

// Returns true if the job could begin on the device if nothing else ran there; `choice` is then the precision. If not,
// the verdict says why.
bool Suits(const internal::JobRecord& record, const std::optional<v1::Checkpoint>& start, const Candidate& candidate,
           precision::PresetChoice* choice, v1::DeviceVerdict* verdict);

// Returns true if a device that suits the job is free now; the verdict is then PLACEMENT_DUE. If not, the verdict says
// why.
bool IsFreeFor(const v1::JobSpec& spec, const Candidate& candidate, v1::DeviceVerdict* verdict);

// Suits and IsFreeFor: returns true if the job can begin on the device now.
bool CanBegin(const internal::JobRecord& record, const std::optional<v1::Checkpoint>& start, const Candidate& candidate,
              precision::PresetChoice* choice, v1::DeviceVerdict* verdict);

// Returns a text that is the same for two jobs if Suits and IsFreeFor have the same verdict on them for every device.
// Different texts mean nothing.
std::string NeedsOf(const internal::JobRecord& record);

// Whether the job has to wait before its next attempt. A wait longer than any retry delay is ignored, because it means
// that the clock was set back meanwhile.
bool WaitsForRetry(const internal::JobRecord& record, int64_t now_unix_micros);

// The checkpoint that the job's next attempt would start from: the job's newest one or, if it has none, the checkpoint
// of another job with which it begins. Nothing if there is neither.
std::optional<v1::Checkpoint> StartPoint(const internal::JobRecord& record);

}  // namespace ampd::server
