#include "precision/bans.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace ampd::precision {

absl::Status CheckBan(const graph::Node& node, const OpDecision& decision, const ResolvedPolicy& policy) {
  if (decision.op_class != graph::OpClass::kBanned || policy.formats.compute == graph::Dtype::kFloat32) {
    return absl::OkStatus();
  }
  const bool takes_probabilities = node.op == "aten.binary_cross_entropy.default";
  return Error(absl::StatusCode::kInvalidArgument, "BANNED_OP",
               absl::StrCat(node.Where(), " is not allowed below fp32; ",
                            takes_probabilities ? "use its form that takes logits, " : "take it out of op_rules, ",
                            "or the preset fp32"));
}

absl::Status CheckBans(const graph::Graph& graph, const ResolvedPolicy& policy) {
  for (const graph::Node& node : graph.nodes()) {
    AMPD_RETURN_IF_ERROR(CheckBan(node, DecideOp(policy, graph, node), policy));
  }
  return absl::OkStatus();
}

}  // namespace ampd::precision
