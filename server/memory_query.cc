#include "server/memory_query.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ampd/v1/worker.pb.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/passes.h"
#include "models/models.h"
#include "precision/capability.h"
#include "precision/example_device.h"
#include "precision/memory.h"
#include "precision/optimizer_kind.h"
#include "precision/policy.h"
#include "server/admission.h"

namespace ampd::server {
namespace {

using Candidate = v1::EstimateJobResponse::Candidate;

constexpr int64_t kMaxMemoryBytes = int64_t{1} << 50;

// A device of each kind that the job may run on.
std::vector<v1::Device> DevicesFor(const v1::ResourceSpec& resources) {
  std::vector<v1::Device> devices;
  if (resources.kind() != v1::ResourceSpec::GPU) {
    devices.push_back(precision::ExampleCpu());
  }
  if (resources.kind() != v1::ResourceSpec::CPU) {
    devices.push_back(precision::ExampleGpu());
  }
  return devices;
}

Candidate CandidateOf(const precision::MemoryEstimate& bytes) {
  Candidate candidate;
  candidate.set_weight_bytes(bytes.weights);
  candidate.set_working_copy_bytes(bytes.working_copies);
  candidate.set_gradient_bytes(bytes.gradients);
  candidate.set_optimizer_bytes(bytes.optimizer);
  candidate.set_activation_bytes(bytes.activations);
  candidate.set_workspace_bytes(bytes.workspace);
  candidate.set_input_bytes(bytes.inputs);
  candidate.set_total_bytes(bytes.total());
  return candidate;
}

absl::StatusOr<Candidate> Estimate(const v1::JobSpec& spec, const graph::Graph& model,
                                   const v1::PrecisionPolicy& policy, const v1::Device& device, int64_t memory_bytes) {
  AMPD_ASSIGN_OR_RETURN(const graph::Graph program, graph::WithLossHead(model));
  AMPD_ASSIGN_OR_RETURN(const precision::ResolvedPolicy resolved,
                        precision::ResolvePolicy(policy, program, device, precision::KindOf(spec.optimizer())));
  precision::TrainingSetup setup = precision::TrainingSetup::Of(spec);
  const int64_t batch_size = spec.data().batch_size() / setup.num_micro_batches;
  if (const int64_t budget = spec.train().memory_budget_bytes(); budget > 0) {
    AMPD_ASSIGN_OR_RETURN(const precision::SegmentChoice choice,
                          precision::ChooseSegments(model, resolved, setup, batch_size, budget));
    setup.checkpoint_segments = choice.segments;
  }
  AMPD_ASSIGN_OR_RETURN(const precision::MemoryModel memory, precision::MemoryModel::Create(model, resolved, setup));
  Candidate candidate = CandidateOf(memory.At(batch_size));
  candidate.set_precision(resolved.preset);
  candidate.set_device_kind(v1::Device::Kind_Name(device.kind()));
  candidate.set_emulated(resolved.emulated());
  candidate.set_largest_batch_size(memory.LargestBatch(memory_bytes) * setup.num_micro_batches);
  return candidate;
}

}  // namespace

absl::StatusOr<v1::EstimateJobResponse> AnswerMemoryQuery(const v1::EstimateJobRequest& request) {
  if (request.memory_bytes() < 0 || request.memory_bytes() > kMaxMemoryBytes) {
    return InvalidFields(
        {{"memory_bytes", absl::StrCat("is ", request.memory_bytes(), "; must be 0 to ", kMaxMemoryBytes)}});
  }
  AMPD_ASSIGN_OR_RETURN(const v1::JobSpec spec, AdmitSpec(request.spec()));
  AMPD_ASSIGN_OR_RETURN(const graph::Graph model, models::BuildModel(spec.model()));
  v1::EstimateJobResponse response;
  response.set_memory_bytes(request.memory_bytes() > 0 ? request.memory_bytes() : spec.resources().memory_bytes());
  for (const std::string& preset : precision::CandidatePresets(spec.precision())) {
    const v1::PrecisionPolicy policy = precision::WithPreset(spec.precision(), preset);
    for (const v1::Device& device : DevicesFor(spec.resources())) {
      if (!precision::FindCapabilityGap(policy, device).has_value()) {
        AMPD_ASSIGN_OR_RETURN(*response.add_candidates(),
                              Estimate(spec, model, policy, device, response.memory_bytes()));
      }
    }
  }
  return response;
}

}  // namespace ampd::server
