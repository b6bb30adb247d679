#include "server/policy_query.h"

#include "base/status_macros.h"
#include "graph/losses.h"
#include "precision/example_device.h"
#include "precision/optimizer_kind.h"
#include "precision/policy.h"
#include "precision/table.h"
#include "server/admission_findings.h"

namespace ampd::server {
namespace {

v1::Device DeviceOf(const v1::ResolvePolicyRequest& request) {
  v1::Device device = request.has_device() ? request.device() : precision::ExampleGpu();
  if (device.id().empty()) {
    device.set_id("the device");
  }
  return device;
}

}  // namespace

absl::StatusOr<v1::PolicyTable> AnswerPolicyQuery(const v1::ResolvePolicyRequest& request) {
  v1::ModelSpec model = request.model();
  Findings findings;
  const std::optional<graph::Graph> graph = AdmitModel(&model, /*sequence_length=*/0, findings);
  findings.UnsupportedIf(model.has_exported(), "model.exported", "only the worker that has the file knows its layers");
  AMPD_RETURN_IF_ERROR(findings.ToStatus());
  AMPD_ASSIGN_OR_RETURN(const graph::Graph program, graph::TrainedGraph(*graph));
  AMPD_ASSIGN_OR_RETURN(const precision::ResolvedPolicy policy,
                        precision::ResolvePolicy(request.precision(), program, DeviceOf(request),
                                                 precision::KindOf(request.optimizer())));
  return precision::ToMessage(policy);
}

}  // namespace ampd::server
