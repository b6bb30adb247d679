#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "precision/policy.h"

namespace ampd::precision {

// From so many classes on a cross entropy holds less than its logarithms (worker/amp/ops/cross_entropy.h).
inline constexpr int64_t kManyClasses = 4096;

// The graph in the policy's dtypes: casts stand where the table says, one a value and dtype, or one a use of what a
// node gives (CastsAtEachUse). Parameters that the table stores below fp32 change their type and are read without a
// cast. What the model means to be fp32 is, and what follows (Node::follows_dtype) has the dtype of what it follows
// (precision/followed_dtypes.h); a fill that follows, with fp32's least or greatest number, takes its result's.
// Products that the device widens become "ampd.linear_wide"(input, weight, bias), "ampd.conv2d_wide"(input, weight,
// bias, stride, padding, dilation, groups), "ampd.attention_wide"(query, key, value, is_causal, attn_mask) and so
// on; linear layers in FP8 become "ampd.linear_fp8"(input, weight, bias, layer, forward, input_gradient,
// weight_gradient), the layer an index of the policy's and the rest which of the products are in FP8. A cross
// entropy in fp32 over kManyClasses becomes "ampd.cross_entropy"(self, target, reduction), which reads logits of any
// format without a cast. In-place ops become their out-of-place forms first. INVALID_ARGUMENT (reason BANNED_OP) for
// an op that the policy bans below fp32, or as WithoutInPlaceOps; UNIMPLEMENTED for a product in fp16 that has no
// such form.
absl::StatusOr<graph::Graph> ApplyPrecision(const graph::Graph& graph, const ResolvedPolicy& policy);

}  // namespace ampd::precision
