#include "precision/cost/memory_message.h"

namespace ampd::precision {

v1::EstimateJobResponse::Candidate ToMessage(const MemoryEstimate& bytes) {
  v1::EstimateJobResponse::Candidate candidate;
  candidate.set_weight_bytes(bytes.weights);
  candidate.set_working_copy_bytes(bytes.working_copies);
  candidate.set_gradient_bytes(bytes.gradients);
  candidate.set_optimizer_bytes(bytes.optimizer);
  candidate.set_activation_bytes(bytes.activations);
  candidate.set_workspace_bytes(bytes.workspace);
  candidate.set_input_bytes(bytes.inputs);
  candidate.set_runtime_bytes(bytes.runtime);
  candidate.set_total_bytes(bytes.total());
  return candidate;
}

}  // namespace ampd::precision
