#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "precision/policy.h"

namespace ampd::precision {

// From this number of classes on, ampd's own cross entropy is used, because it needs less memory than LibTorch's
// (worker/amp/ops/cross_entropy.h).
inline constexpr int64_t kManyClasses = 4096;

// Converts the graph to the policy's dtypes:
//
// * In-place ops are first replaced by their out-of-place forms.
// * Casts are inserted where the table says: one per value and dtype, or one per use of a node's result
//   (CastsAtEachUse).
// * Parameters that the table stores below fp32 change their type and are read without a cast.
// * Values that the model requires to be fp32 stay fp32. Values that follow another dtype (Node::follows_dtype) get the
//   dtype that they follow (precision/followed_dtypes.h).
// * A fill with a finite number beyond the range of its result's dtype, such as fp32's least or greatest, uses the
//   limit of that dtype instead.
// * Products that the device computes in fp32 (WidensProducts) become "ampd.linear_wide"(input, weight, bias),
//   "ampd.conv2d_wide"(input, weight, bias, stride, padding, dilation, groups), "ampd.attention_wide"(query, key,
//   value, is_causal, attn_mask) and so on.
// * Linear layers in FP8 become "ampd.linear_fp8"(input, weight, bias, layer, forward, input_gradient,
//   weight_gradient). `layer` is an index into the policy's layers, and the last three arguments say which products are
//   in FP8.
// * On a device whose adaptive pools are not deterministic (AdaptivePoolsVary), an adaptive average pool that has
//   windows of one size (graph::EqualWindows) becomes an average pool with these windows.
// * A cross entropy in fp32 over at least kManyClasses classes becomes "ampd.cross_entropy"(self, target, reduction),
//   which reads logits of any format without a cast.
// * On a GPU, a linear layer and such a cross entropy of its results become
//   "ampd.linear_cross_entropy"(input, weight, bias, target, reduction), unless something else reads the logits
//   (precision/linear_cross_entropy.h).
// * On a GPU layer norms become "ampd.layer_norm" or "ampd.add_layer_norm", which compute the additions and casts
//   around them too (precision/fused_norms.h). If a linear layer in FP8 with one scale per tensor reads the result, the
//   norm also finds the largest magnitude of the result, and the layer uses it (graph/norm_amaxes.h).
// * On a GPU the other linear layers with a bias become "ampd.linear"(input, weight, bias) (precision/fused_linears.h).
//
// Returns INVALID_ARGUMENT (reason BANNED_OP) for an op that the policy bans below fp32; the errors of
// graph::WithoutInPlaceOps; and UNIMPLEMENTED for an fp16 product that the device computes in fp32, if the product has
// several results and no "_wide" form.
absl::StatusOr<graph::Graph> ApplyPrecision(const graph::Graph& graph, const ResolvedPolicy& policy);

}  // namespace ampd::precision
