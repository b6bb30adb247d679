#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "precision/policy.h"

namespace ampd::precision {

// With at least this many classes, our cross entropy holds less than its logarithms (worker/amp/ops/cross_entropy.h).
inline constexpr int64_t kManyClasses = 4096;

// Converts the graph to the policy's dtypes. Casts are inserted where the table says: one per value and dtype, or one
// per use of a node's result (CastsAtEachUse). Parameters that the table stores below fp32 change their type and are
// read without a cast. What the model requires to be fp32 stays fp32, and what follows (Node::follows_dtype) gets the
// dtype that it follows (precision/followed_dtypes.h); a fill that follows, with fp32's least or greatest number, uses
// its result's.
//
// Products that the device widens become "ampd.linear_wide"(input, weight, bias), "ampd.conv2d_wide"(input, weight,
// bias, stride, padding, dilation, groups), "ampd.attention_wide"(query, key, value, is_causal, attn_mask) and so on.
// Linear layers in FP8 become "ampd.linear_fp8"(input, weight, bias, layer, forward, input_gradient, weight_gradient),
// where `layer` is an index into the policy's layers and the last three say which products are in FP8. A cross entropy
// in fp32 over at least kManyClasses classes becomes "ampd.cross_entropy"(self, target, reduction), which reads logits
// of any format without a cast. In-place ops are first replaced by their out-of-place forms.
//
// Returns INVALID_ARGUMENT (reason BANNED_OP) for an op that the policy bans below fp32, or as WithoutInPlaceOps;
// UNIMPLEMENTED for a product in fp16 that has no such form.
absl::StatusOr<graph::Graph> ApplyPrecision(const graph::Graph& graph, const ResolvedPolicy& policy);

}  // namespace ampd::precision
