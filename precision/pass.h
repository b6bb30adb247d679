#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "precision/policy.h"

namespace ampd::precision {

// The graph in the policy's dtypes: casts stand where the table says, one a value and dtype. Parameters that the table
// stores below fp32 change their type and are read without a cast. Emulated fp16 products become
// "ampd.linear_fp16"(input, weight, bias), "ampd.conv2d_fp16"(input, weight, bias, stride, padding, dilation, groups)
// and "ampd.attention_fp16"(query, key, value, is_causal, attn_mask); linear layers in FP8 become
// "ampd.linear_fp8"(input, weight, bias, layer, forward, input_gradient, weight_gradient), the layer an index of the
// policy's and the rest which of the products are in FP8. In-place ops become their out-of-place forms first.
// INVALID_ARGUMENT (reason BANNED_OP) for an op that the policy bans below fp32, or as WithoutInPlaceOps;
// UNIMPLEMENTED for an emulated op that has no replacement.
absl::StatusOr<graph::Graph> ApplyPrecision(const graph::Graph& graph, const ResolvedPolicy& policy);

}  // namespace ampd::precision
