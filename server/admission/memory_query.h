#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/exported/exported_program.h"
#include "graph/work.h"

// Predicts the memory that training needs from the model's graph. Pure. The prediction takes microseconds per node of
// the model for each preset and device; with train.memory_budget_bytes it takes about twenty times as long. `work`
// counts the effort and may stop the computation, which then returns CANCELLED.
namespace ampd::server {

// The parameter `uploaded` of the functions below is the exported model that the spec names; null if it was not read.

// Answers JobService.EstimateJob: predicts the memory of a job's steps and evaluations for each way in which the job
// may run, which is a preset on a device. `workers` has the workers on which the job could run, each with only the
// devices that the job could use. Errors are documented at the service.
absl::StatusOr<v1::EstimateJobResponse> AnswerMemoryQuery(const v1::EstimateJobRequest& request,
                                                          const std::vector<v1::Worker>& workers,
                                                          const graph::ExportedModel* uploaded = nullptr,
                                                          graph::Work* work = nullptr);

// Predicts the peak memory, in bytes, of all tensors of an attempt that runs the job in this preset on this device.
// REQUIRES: the spec was admitted. Errors: those of precision::ResolvePolicy and precision::MemoryModel::Create;
// UNIMPLEMENTED for an exported model that was not read.
absl::StatusOr<int64_t> PredictPeak(const v1::JobSpec& spec, const std::string& preset, const v1::Device& device,
                                    const graph::ExportedModel* uploaded = nullptr, graph::Work* work = nullptr);

}  // namespace ampd::server
