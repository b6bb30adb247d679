#include "server/policy_query.h"

#include <cstdint>
#include <limits>
#include <optional>

#include "base/status_macros.h"
#include "graph/losses.h"
#include "precision/example_device.h"
#include "precision/optimizer_kind.h"
#include "precision/policy.h"
#include "precision/table.h"
#include "server/admission_findings.h"

namespace ampd::server {
namespace {

constexpr int64_t kMaxSequenceLength = std::numeric_limits<int32_t>::max();  // as a job's data says it

v1::Device DeviceOf(const v1::ResolvePolicyRequest& request) {
  v1::Device device = request.has_device() ? request.device() : precision::ExampleGpu();
  if (device.id().empty()) {
    device.set_id("the device");
  }
  return device;
}

}  // namespace

absl::StatusOr<v1::PolicyTable> AnswerPolicyQuery(const v1::ResolvePolicyRequest& request,
                                                  const graph::ExportedModel* uploaded) {
  v1::ModelSpec spec = request.model();
  Findings findings;
  findings.Range("sequence_length", request.sequence_length(), 0, kMaxSequenceLength);
  const std::optional<AdmittedModel> model = AdmitModel(&spec, request.sequence_length(), uploaded, findings);
  findings.UnsupportedIf(spec.has_exported() && uploaded == nullptr, "model.exported", WhyUnseen(spec.exported()));
  AMPD_RETURN_IF_ERROR(findings.ToStatus());
  AMPD_ASSIGN_OR_RETURN(const graph::Graph program, graph::TrainedGraph(model->graph));
  AMPD_ASSIGN_OR_RETURN(const precision::ResolvedPolicy policy,
                        precision::ResolvePolicy(request.precision(), program, DeviceOf(request),
                                                 precision::KindOf(request.optimizer())));
  v1::PolicyTable table = precision::ToMessage(policy);
  table.mutable_warnings()->Add(model->warnings.begin(), model->warnings.end());
  return table;
}

}  // namespace ampd::server
