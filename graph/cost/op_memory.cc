#include "graph/cost/op_memory.h"

#include <algorithm>

#include "base/glob.h"
#include "graph/aliases.h"
#include "graph/cost/op_facts.h"
#include "graph/fused_batch_norms.h"
#include "graph/modes.h"
#include "graph/norm_amaxes.h"

namespace ampd::graph {

OpMemory::OpMemory(const Graph& program, int64_t batch_size, const std::string& trained, bool on_gpu)
    : graph_(program), batch_size_(batch_size), on_gpu_(on_gpu), states_(static_cast<size_t>(program.num_values())) {
  for (const graph::State& parameter : program.parameters()) {
    states_[Index(parameter.value)].trained = GlobMatches(trained, parameter.name);
  }
  for (const Node& node : program.nodes()) {
    Mark(node);
  }
}

void OpMemory::Mark(const Node& node) {
  const std::vector<ValueId> uses = node.Uses();
  const bool trained = !RowOf(node)->no_gradient &&
                       std::any_of(uses.begin(), uses.end(), [this](ValueId use) { return IsTrained(use); });
  for (ValueId output : node.outputs) {
    states_[Index(output)].trained =
        trained && IsFloatingPoint(graph_.type(output).dtype) && AmaxFoundBy(node) != output;
    states_[Index(output)].channels_last = IsChannelsLast(node, output);
    if (node.op == "aten.flatten.using_ints" && !ShownBy(node, output).has_value()) {
      states_[Index(uses[0])].flattened_by_copy = true;
    }
  }
}

// Whether a result of the node lies channels-last in memory. Convolutions use channels-last weights
// (worker/amp/step/format.cc) and return channels-last images; later ops keep the order.
bool OpMemory::IsChannelsLast(const Node& node, ValueId output) const {
  if (graph_.type(output).shape.size() < 4 || node.op == "aten.transpose.int" || node.op == "aten.view.default") {
    return false;
  }
  const std::vector<ValueId> uses = node.Uses();
  return IsConvolution(node) ||
         std::any_of(uses.begin(), uses.end(), [this](ValueId use) { return states_[Index(use)].channels_last; });
}

int64_t OpMemory::Elements(ValueId value) const {
  int64_t elements = 1;
  for (const Dim& dim : graph_.type(value).shape) {
    elements *= dim.At(batch_size_);
  }
  return elements;
}

int64_t OpMemory::Bytes(ValueId value) const { return Elements(value) * ItemSizeBytes(graph_.type(value).dtype); }

int64_t OpMemory::WideBytes(ValueId value) const { return Elements(value) * static_cast<int64_t>(sizeof(float)); }

std::optional<ValueId> OpMemory::ShownBy(const Node& node, ValueId output) const {
  if (node.op == kFusedBatchNorm && output != node.outputs[0]) {
    return node.outputs[0];  // The two results are equal, and share their memory.
  }
  const auto shown = node.ValueOf(RowOf(node)->views);
  if (!shown.has_value() || CopiesByRequest(node) || graph_.type(*shown).dtype != graph_.type(output).dtype) {
    return std::nullopt;
  }
  // Flattening needs the channels in order, so a channels-last image is copied.
  const Shape& shape = graph_.type(*shown).shape;
  const bool has_own = node.op == "aten.flatten.using_ints" && states_[Index(*shown)].channels_last &&
                       shape[2].factor() * shape[3].factor() != 1 && shape[1].factor() != 1;
  return has_own ? std::nullopt : shown;
}

std::vector<OpMemory::Kept> OpMemory::Keeps(const Node& node) const {
  std::vector<Kept> kept;
  if (MakesScores(node)) {
    return {{std::nullopt, AttentionSavedBytes(AttentionSizesOf(node))}};
  }
  std::vector<std::string_view> saves = SavesOf(node);
  if (IsLinearCrossEntropy(node) && PadsClasses(LossHeadSizesOf(node))) {
    std::erase(saves, "weight");
  }
  for (std::string_view name : saves) {
    if (name.starts_with("result.")) {
      kept.push_back({std::nullopt, InnerBytes(node, name)});
    } else if (name == "result") {
      kept.push_back({node.outputs[0]});
    }
    for (const ValueId value : ValuesOf(node, name)) {
      kept.push_back({value});
    }
  }
  return kept;
}

// Whether the node is an attention that LibTorch computes with all scores in memory, because it has no flash kernel for
// this call. This holds only on a CPU, in these cases:
// * There is dropout.
// * The mask has a gradient, or three dimensions.
// * Query and value are not both (B, heads, T, D) with the same D.
bool OpMemory::MakesScores(const Node& node) const {
  if (on_gpu_ || RowOf(node)->op != "aten.scaled_dot_product_attention.default") {
    return false;
  }
  const auto mask = node.ValueOf("attn_mask");
  if (DrawsRandomNumbers(node) || (mask.has_value() && (IsTrained(*mask) || graph_.type(*mask).shape.size() == 3))) {
    return true;
  }
  const Shape& query = graph_.type(*node.ValueOf("query")).shape;
  const Shape& value = graph_.type(*node.ValueOf("value")).shape;
  return query.size() != 4 || value.size() != 4 || query[3] != value[3];
}

// REQUIRES: the node is attention.
AttentionSizes OpMemory::AttentionSizesOf(const Node& node) const {
  const ValueId query = *node.ValueOf("query");
  const ValueId key = *node.ValueOf("key");
  const Shape& rows = graph_.type(query).shape;
  const Shape& columns = graph_.type(key).shape;
  const int64_t num_rows = Elements(query) / std::max<int64_t>(rows.back().At(batch_size_), 1);
  return {.query = Elements(query),
          .key = Elements(key),
          .value = Elements(*node.ValueOf("value")),
          .scores = num_rows * columns[columns.size() - 2].At(batch_size_),
          .drops = DrawsRandomNumbers(node),
          .is_narrow = ItemSizeBytes(graph_.type(query).dtype) < ItemSizeBytes(Dtype::kFloat32)};
}

RecurrentSizes OpMemory::RecurrentSizesOf(const Node& node) const {
  const auto is = [&node](std::string_view argument) {
    const Operand* const operand = node.Find(argument);
    return operand != nullptr && *operand == Operand(true);
  };
  const Operand* const layers = node.Find("num_layers");
  const int64_t* const num_layers = layers == nullptr ? nullptr : std::get_if<int64_t>(layers);
  const Shape& input = graph_.type(*node.ValueOf("input")).shape;
  const TensorType& result = graph_.type(node.outputs[0]);
  const int64_t num_directions = is("bidirectional") ? 2 : 1;
  const size_t batch = is("batch_first") ? 0 : 1;
  return {.is_lstm = RowOf(node)->op == "aten.lstm.input",
          .batch = input[batch].At(batch_size_),
          .length = input[1 - batch].At(batch_size_),
          .in_features = input[2].factor(),
          .hidden = result.shape[2].factor() / num_directions,
          .num_layers = num_layers == nullptr ? 1 : *num_layers,
          .num_directions = num_directions,
          .item_bytes = ItemSizeBytes(IsWide(node) ? Dtype::kFloat32 : result.dtype)};
}

// Bytes that a recurrent layer saves for its backward pass. They include the fp32 copies of its parameters if the layer
// computes with such copies.
int64_t OpMemory::PositionBytes(const Node& node) const {
  const Operand* const train = node.Find("train");
  if (train != nullptr && *train == Operand(false)) {
    return 0;
  }
  int64_t wide_parameters = 0;
  for (const ValueId parameter : ValuesOf(node, "params")) {
    wide_parameters += IsWide(node) ? WideBytes(parameter) : 0;
  }
  return wide_parameters + RecurrentSavedBytes(RecurrentSizesOf(node));
}

LossHeadSizes OpMemory::LossHeadSizesOf(const Node& node) const {
  const TensorType& weight = graph_.type(*node.ValueOf("weight"));
  return {.num_rows = Elements(*node.ValueOf("target")),
          .num_classes = weight.shape[0].factor(),
          .num_features = weight.shape[1].factor(),
          .item_bytes = ItemSizeBytes(weight.dtype)};
}

// Bytes of an internal tensor that an op saves. `name`: its name in OpRow::saves, for example "result.mask".
int64_t OpMemory::InnerBytes(const Node& node, std::string_view name) const {
  const ValueId result = node.outputs[0];
  if (name == "result.mask") {
    return Bytes(result);
  }
  if (name == "result.relu_mask") {
    // A file may have a norm over no channels. It has no elements either, so any divisor but 0 is right for it.
    const int64_t channels = std::max<int64_t>(graph_.type(result).shape[1].factor(), 1);
    return Elements(result) / channels * ((channels + kBatchNormMaskPack - 1) / kBatchNormMaskPack);
  }
  if (name == "result.feature_mask") {
    const Shape& shape = graph_.type(result).shape;
    return shape[0].At(batch_size_) * shape[1].At(batch_size_) * ItemSizeBytes(graph_.type(result).dtype);
  }
  if (name == "result.added_mask") {
    const auto mask = node.ValueOf("attn_mask");
    return mask.has_value() ? Elements(*mask) * ItemSizeBytes(graph_.type(result).dtype) : 0;
  }
  if (name == "result.indices") {
    return Elements(result) * static_cast<int64_t>(sizeof(int64_t));
  }
  if (name == "result.input_fp8") {
    return Elements(*node.ValueOf("input")) * ItemSizeBytes(Dtype::kFloat8E4M3);
  }
  if (name == "result.positions") {
    return PositionBytes(node);
  }
  if (name == "result.loss_head") {
    return LossHeadSavedBytes(LossHeadSizesOf(node));
  }
  if (name == "result.log_softmax") {
    return Bytes(*node.ValueOf("self"));
  }
  // Norms save one fp32 number per channel, or per row.
  const Shape& shape = graph_.type(result).shape;
  const int64_t rows = name.starts_with("result.save_")
                           ? shape[1].factor()
                           : Elements(result) / std::max<int64_t>(shape.back().factor(), 1);
  return rows * static_cast<int64_t>(sizeof(float));
}

bool OpMemory::PassesGradient(const Node& node, ValueId argument) const {
  const ValueId result = node.outputs[0];
  if (node.op == kFusedBatchNorm) {
    return !EndsInRelu(node) && node.ValueOf("residual") == argument;
  }
  return RowOf(node)->passes_gradient && graph_.type(argument).dtype == graph_.type(result).dtype &&
         Elements(argument) == Elements(result);
}

bool OpMemory::SharesGradient(const Node& node, ValueId argument, ValueId other) const {
  const auto is_addend = [&](ValueId value) { return node.ValueOf("self") == value || node.ValueOf("other") == value; };
  return IsAddLayerNorm(node) && is_addend(argument) && is_addend(other) &&
         graph_.type(argument).dtype == graph_.type(other).dtype;
}

bool OpMemory::WritesGradientOver(const Node& node, ValueId argument) const {
  return IsCrossEntropy(node) && node.ValueOf("self") == argument;
}

}  // namespace ampd::graph
