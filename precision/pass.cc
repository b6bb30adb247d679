#include "precision/pass.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "graph/norm_amaxes.h"
#include "graph/passes.h"
#include "graph/rewriter.h"
#include "precision/bans.h"
#include "precision/dtype_givers.h"
#include "precision/followed_dtypes.h"
#include "precision/fused_linears.h"
#include "precision/fused_norms.h"
#include "precision/linear_cross_entropy.h"
#include "precision/replaced_ops.h"

namespace ampd::precision {
namespace {

using graph::Dtype;
using graph::Node;
using graph::OpClass;
using graph::Operand;
using graph::ValueId;

constexpr char kCast[] = "aten.to.dtype";

// An op that fills a tensor with a number, and the name of the argument that is the number.
struct Fill {
  std::string_view op;
  std::string_view value;
};

constexpr Fill kFills[] = {{"aten.full.default", "fill_value"},
                           {"aten.full_like.default", "fill_value"},
                           {"aten.masked_fill.Scalar", "value"}};

class PrecisionPass {
 public:
  PrecisionPass(const graph::Graph& source, const ResolvedPolicy& policy)
      : source_(source), policy_(policy), rewriter_(source), followed_(rewriter_.target()) {}

  absl::StatusOr<graph::Graph> Run() && {
    SetTypes(source_.parameters(), policy_.parameters);
    SetTypes(source_.buffers(), policy_.buffers);
    for (const Node& node : source_.nodes()) {
      AMPD_RETURN_IF_ERROR(Convert(node));
      activations_.insert(node.outputs.begin(), node.outputs.end());
    }
    return std::move(rewriter_).Finish();
  }

 private:
  template <typename Row>
  void SetTypes(const std::vector<graph::State>& states, const std::vector<Row>& rows) {
    std::map<std::string_view, Dtype> dtypes;
    for (const Row& row : rows) {
      dtypes[row.name] = row.dtype;
    }
    for (const graph::State& state : states) {
      if (const auto dtype = dtypes.find(state.name); dtype != dtypes.end()) {
        rewriter_.SetType(state.value, {dtype->second, source_.type(state.value).shape});
      }
    }
  }

  absl::Status Convert(const Node& source) {
    Node node = source;
    OpDecision decision = DecideOp(policy_, source_, node);
    AMPD_RETURN_IF_ERROR(CheckBan(node, decision, policy_));
    const std::optional<Dtype> dtype = DtypeFor(node, decision);
    LowerWhatComesNarrow(node, dtype, decision);
    const std::optional<Dtype> written = DtypeWrittenBy(node);
    const bool in_parts = decision.op_class == OpClass::kFp32 && ReplaceByParts(node, source_);
    if (dtype.has_value()) {
      const bool is_asked_cast = IsCast(node) && (node.keeps_fp32 || node.follows_dtype);
      const bool is_double = *dtype == Dtype::kFloat64;
      if (!(IsCast(node) && decision.op_class == OpClass::kAsInput) && !is_asked_cast && !in_parts && !is_double) {
        CastArguments(node, decision, *dtype);
      }
      SetResultTypes(node, IsCast(source) ? followed_.FollowedBy(source).value_or(Dtype::kFloat32) : *dtype);
    }
    const bool is_cast_back = written.has_value() && dtype.has_value() && *written != *dtype;
    if (is_cast_back) {
      rewriter_.SetType(node.outputs[0], {*written, source_.type(node.outputs[0]).shape});
    }
    followed_.Add(source, decision.op_class);
    FillWithinRange(node);
    if (policy_.adaptive_pools_vary) {
      ReplaceByAveragePool(node, source_);
    }
    if (is_cast_back) {
      KeepBeforeCast(std::move(node), *dtype);
      return absl::OkStatus();
    }
    bool needs_casts = policy_.norms_need_one_dtype && IsNormOfTwoDtypes(node) && !WillBeFused(node);
    if (decision.fp8_layer.has_value()) {
      ReplaceByFp8(node, *decision.fp8_layer, policy_.fp8_layers[*decision.fp8_layer].products);
    } else if (decision.upcast) {
      needs_casts = !ReplaceByWide(node) && decision.compute == Dtype::kFloat16;
    }
    if (needs_casts) {
      return KeepBetweenCasts(std::move(node));
    }
    rewriter_.Keep(std::move(node));
    return absl::OkStatus();
  }

  // Changes the decision for a product that computes in its inputs' dtype, such as a GRU under autocast on a CPU. If
  // that dtype is below fp32, the product is treated like one for which the policy chose this dtype.
  void LowerWhatComesNarrow(const Node& node, std::optional<Dtype> dtype, OpDecision& decision) const {
    const graph::OpRow* const row = graph::FindOp(node.op);
    const bool is_product = row != nullptr && row->op_class == OpClass::kLower;
    if (is_product && decision.op_class == OpClass::kAsInput && dtype.has_value() && *dtype != Dtype::kFloat32) {
      const std::vector<Dtype>& upcast = policy_.upcast_dtypes;
      decision.compute = *dtype;
      decision.upcast = std::find(upcast.begin(), upcast.end(), *dtype) != upcast.end();
    }
  }

  // Whether the node is a norm that reads weights in another dtype than its input. False for batch norms, because every
  // device accepts them with two dtypes.
  bool IsNormOfTwoDtypes(const Node& node) const {
    const graph::OpRow* const row = graph::FindOp(node.op);
    return row != nullptr && node.op != "aten.batch_norm.default" &&
           std::any_of(row->fp32_arguments.begin(), row->fp32_arguments.end(), [&](std::string_view name) {
             const auto weight = node.ValueOf(name);
             return weight.has_value() && TypeOf(*weight) != TypeOf(*node.ValueOf(row->result_like));
           });
  }

  // Whether WithFusedNorms will replace the node by an op that takes different dtypes.
  bool WillBeFused(const Node& node) const { return policy_.fuses_layer_norms && node.op == "aten.layer_norm.default"; }

  // Keeps a node between casts, for an op that has no "_wide" form: casts its arguments to fp32, computes in fp32, and
  // rounds the result. The values are those that a "_wide" form would give, but the node needs more memory, because the
  // fp32 arguments are saved for the backward pass.
  absl::Status KeepBetweenCasts(Node node) {
    if (node.outputs.size() != 1) {
      return UnsupportedField("precision.preset", absl::StrCat(node.op, " has no fp16 form on a CPU"));
    }
    CastArguments(node, {}, Dtype::kFloat32);
    KeepBeforeCast(std::move(node), Dtype::kFloat32);
    return absl::OkStatus();
  }

  // For a node that the model runs in place: the dtype of the tensor that the model overwrites. The result must have
  // this dtype, whatever the node computes in. For any other node: nothing.
  std::optional<Dtype> DtypeWrittenBy(const Node& node) const {
    if (!node.is_written_in_place) {
      return std::nullopt;
    }
    const Dtype dtype = TypeOf(node.Uses().front());
    return graph::IsFloatingPoint(dtype) ? std::optional(dtype) : std::nullopt;
  }

  // Emits the node so that it computes its single result in the dtype `computed`, and a cast of this result to the
  // dtype that it must have.
  void KeepBeforeCast(Node node, Dtype computed) {
    const graph::Value& result = rewriter_.target().value(node.outputs[0]);
    Node cast{.op = kCast,
              .arguments = {},
              .outputs = std::exchange(node.outputs, {}),
              .module_path = node.module_path,
              .source = node.source};
    const Dtype dtype = result.type.dtype;
    const ValueId before =
        rewriter_.Emit(std::move(node), absl::StrCat(result.name, "_wide"), {computed, result.type.shape});
    cast.arguments = {{"self", before}, {"dtype", dtype}};
    rewriter_.Keep(std::move(cast));
  }

  const graph::TensorType& FullTypeOf(ValueId value) const { return rewriter_.target().type(rewriter_.Resolve(value)); }
  Dtype TypeOf(ValueId value) const { return FullTypeOf(value).dtype; }

  // Sets the dtype of the node's floating-point results. A node that names its dtype itself, such as a cast, keeps it,
  // unless it is marked with follows_dtype. The results of a node that computes in float64 keep the types of the model.
  void SetResultTypes(Node& node, Dtype dtype) {
    const Operand* const given = node.Find("dtype");
    const Dtype* const named = given == nullptr ? nullptr : std::get_if<Dtype>(given);
    if (dtype == Dtype::kFloat64 || ((named != nullptr || IsCast(node)) && !node.follows_dtype)) {
      return;
    }
    for (ValueId output : node.outputs) {
      if (graph::IsFloatingPoint(source_.type(output).dtype)) {
        rewriter_.SetType(output, {dtype, source_.type(output).shape});
      }
    }
    if (named != nullptr) {
      node.Set("dtype", dtype);
    }
  }

  // If the node fills a tensor with a finite number beyond the range of the tensor's dtype, replaces the number by the
  // limit of that dtype. Models often fill with the least number, `torch.finfo(x.dtype).min`, which an export writes as
  // the least fp32 number. ATen rejects such a fill in a lower format, and a later cast would make the number infinite.
  // REQUIRES: the node was added to followed_.
  void FillWithinRange(Node& node) const {
    const auto fill =
        std::find_if(std::begin(kFills), std::end(kFills), [&](const Fill& one) { return one.op == node.op; });
    const Operand* const given = fill == std::end(kFills) ? nullptr : node.Find(fill->value);
    const double* const value = given == nullptr ? nullptr : std::get_if<double>(given);
    const graph::ValueId result = node.outputs[0];
    const Dtype dtype = followed_.Yields(result) ? policy_.formats.compute : rewriter_.target().type(result).dtype;
    if (value != nullptr && std::isfinite(*value) && graph::IsFloatingPoint(dtype) &&
        std::abs(*value) > graph::Greatest(dtype)) {
      node.Set(std::string(fill->value), std::copysign(graph::Greatest(dtype), *value));
    }
  }

  bool IsNumber(ValueId value) const { return FullTypeOf(value).shape.empty(); }

  // For a norm whose running statistics are stored below fp32: the dtype of the statistics. The norm must compute in
  // this dtype, because statistics that the norm writes cannot be cast. For any other node: nothing.
  std::optional<Dtype> NarrowStatistics(const Node& node) const {
    const graph::OpRow* const row = graph::FindOp(node.op);
    for (const std::string_view name : row == nullptr ? std::vector<std::string_view>() : row->writes) {
      if (const auto written = node.ValueOf(name); written.has_value() && TypeOf(*written) != Dtype::kFloat32) {
        return TypeOf(*written);
      }
    }
    return std::nullopt;
  }

  // The dtype that a node computes in; nothing if it reads no floating-point value.
  std::optional<Dtype> DtypeFor(const Node& node, const OpDecision& decision) const {
    const auto type_of = [this](ValueId value) -> const graph::TensorType& { return FullTypeOf(value); };
    if (ComputesInFloat64(node, type_of)) {
      return Dtype::kFloat64;
    }
    if (const auto statistics = NarrowStatistics(node); statistics.has_value()) {
      return statistics;
    }
    std::optional<Dtype> first, widest;
    for (ValueId use : DtypeGiversOf(node, type_of)) {
      const Dtype dtype = TypeOf(use);
      if (!followed_.Yields(use)) {
        widest = widest.value_or(dtype) == dtype ? dtype : Dtype::kFloat32;
      }
      first = first.value_or(dtype);
    }
    if (!first.has_value()) {
      return first;
    }
    if (decision.op_class == OpClass::kPromote || decision.op_class == OpClass::kAsInput) {
      return widest.has_value() ? widest : first;
    }
    return decision.op_class == OpClass::kLower ? decision.compute : Dtype::kFloat32;
  }

  bool StaysNumber(const graph::Argument& argument) const {
    const auto* const value = std::get_if<ValueId>(&argument.operand);
    return value != nullptr && IsNumber(*value) && !followed_.Yields(*value);
  }

  // Whether the argument stays in fp32 although the node computes in a lower format. This holds for weights and
  // statistics of norms, and for 0-dim fp32 values: PyTorch computes with the fp32 value, and rounds only the result to
  // the lower format.
  bool StaysInFp32(const Node& node, const OpDecision& decision, const graph::Argument& argument) const {
    const graph::OpRow* const row = graph::FindOp(node.op);
    if (row == nullptr) {
      return false;
    }
    const bool keeps_numbers =
        row->op_class == OpClass::kPromote || decision.op_class == OpClass::kAsInput || !row->result_like.empty();
    const bool may_be_fp32 =
        std::find(row->fp32_arguments.begin(), row->fp32_arguments.end(), argument.name) != row->fp32_arguments.end();
    const auto value = node.ValueOf(argument.name);
    return (keeps_numbers && StaysNumber(argument)) ||
           (may_be_fp32 && value.has_value() && TypeOf(*value) == Dtype::kFloat32);
  }

  void CastArguments(Node& node, const OpDecision& decision, Dtype dtype) {
    const graph::OpRow* const row = graph::FindOp(node.op);
    for (graph::Argument& argument : node.arguments) {
      if ((row != nullptr && argument.name == row->shape_argument) ||
          (dtype != Dtype::kFloat32 && StaysInFp32(node, decision, argument))) {
        continue;
      }
      if (auto* value = std::get_if<ValueId>(&argument.operand)) {
        *value = Cast(*value, dtype);
      } else if (auto* list = std::get_if<std::vector<std::optional<ValueId>>>(&argument.operand)) {
        for (auto& entry : *list) {
          entry = entry.has_value() ? std::optional(Cast(*entry, dtype)) : entry;
        }
      }
    }
  }

  ValueId Cast(ValueId value, Dtype dtype) {
    const graph::Value& source = rewriter_.target().value(rewriter_.Resolve(value));
    const Dtype before = source.type.dtype;
    if (!graph::IsFloatingPoint(before) || before == dtype || before == Dtype::kFloat64) {
      return value;
    }
    const auto key = std::pair(value, dtype);
    if (const auto it = casts_.find(key); it != casts_.end()) {
      return it->second;
    }
    const std::string name = absl::StrCat(source.name, "_", std::string(graph::DtypeName(dtype)));
    const graph::TensorType type = {dtype, source.type.shape};
    Node cast{.op = kCast, .arguments = {{"self", value}, {"dtype", dtype}}, .outputs = {}, .module_path = {}};
    const ValueId result = rewriter_.Emit(std::move(cast), name, type);
    if (!activations_.contains(value) || !CastsAtEachUse(policy_.op_list)) {
      casts_.emplace(key, result);
    }
    return result;
  }

  const graph::Graph& source_;
  const ResolvedPolicy& policy_;
  graph::Rewriter rewriter_;
  FollowedDtypes followed_;
  std::set<ValueId> activations_;  // Values of the source that nodes produce.
  std::map<std::pair<ValueId, Dtype>, ValueId> casts_;
};

}  // namespace

absl::StatusOr<graph::Graph> ApplyPrecision(const graph::Graph& graph, const ResolvedPolicy& policy) {
  // In-place ops are replaced first, because a cast of the argument that an op writes would redirect the write to a
  // temporary.
  AMPD_ASSIGN_OR_RETURN(const graph::Graph plain, graph::WithoutInPlaceOps(graph));
  AMPD_ASSIGN_OR_RETURN(graph::Graph converted, PrecisionPass(plain, policy).Run());
  if (policy.fuses_layer_norms) {
    converted = WithFusedNorms(converted);
  }
  if (policy.norms_find_amaxes) {
    converted = graph::WithNormAmaxes(converted);
  }
  if (policy.fuses_linear_cross_entropy) {
    converted = WithLinearCrossEntropies(converted);
  }
  return policy.fuses_linears ? WithFusedLinears(converted) : std::move(converted);
}

}  // namespace ampd::precision
