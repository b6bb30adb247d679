#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/worker.pb.h"

// Memory of training, told from the model's graph. Pure; milliseconds.
namespace ampd::server {

// JobService.EstimateJob: the memory of a job's steps and evaluations, for each way it may run. `workers` are those
// that the job could run on, with no other devices than those. Errors as the service says.
absl::StatusOr<v1::EstimateJobResponse> AnswerMemoryQuery(const v1::EstimateJobRequest& request,
                                                          const std::vector<v1::Worker>& workers);

// The bytes of tensors that an attempt of the job in one preset on one device has at its peak. REQUIRES: the spec was
// admitted. Errors as precision::ResolvePolicy and precision::MemoryModel::Create.
absl::StatusOr<int64_t> PredictPeak(const v1::JobSpec& spec, const std::string& preset, const v1::Device& device);

}  // namespace ampd::server
