#include "graph/memory/op_memory.h"

#include <algorithm>

#include "base/glob.h"
#include "graph/modes.h"

namespace ampd::graph {
namespace {

// This op saves its weight unchanged, and its input in FP8 if the weight gradient is a product in FP8.
const OpRow kLinearFp8 = {
    .op = "ampd.linear_fp8", .op_class = OpClass::kLower, .saves = {"weight", "result.input_fp8"}};

// This op processes its rows in parts, and again in the backward pass.
const OpRow kCrossEntropy = {.op = "ampd.cross_entropy", .op_class = OpClass::kFp32, .saves = {"self", "target"}};

// The row of a node's op; for an op that computes through fp32, the row of the op it replaces.
const OpRow* RowOf(const Node& node) {
  for (const OpRow* const row : {&kLinearFp8, &kCrossEntropy}) {
    if (node.op == row->op) {
      return row;
    }
  }
  return FindOp(ComputedBy(node.op));
}

// Whether the op computes in fp32 copies of its arguments: 16-bit products, and FP8 products that no device computes.
bool IsWide(const Node& node) { return node.op.starts_with("ampd.") && node.op != kCrossEntropy.op; }

// The argument's value, or the values of its list.
std::vector<ValueId> ValuesOf(const Node& node, std::string_view argument) {
  std::vector<ValueId> values;
  const Operand* const operand = node.Find(argument);
  if (operand == nullptr) {
    return values;
  }
  if (const auto* const list = std::get_if<std::vector<std::optional<ValueId>>>(operand)) {
    for (const std::optional<ValueId>& value : *list) {
      values.insert(values.end(), value.has_value() ? 1 : 0, value.value_or(ValueId()));
    }
  } else if (const auto value = node.ValueOf(argument); value.has_value()) {
    values.push_back(*value);
  }
  return values;
}

bool IsConvolution(const Node& node) {
  const std::string_view op = RowOf(node)->op;
  return op == "aten.conv2d.default" || op == "aten.conv_transpose2d.input";
}

bool IsRecurrent(const Node& node) {
  const std::string_view op = RowOf(node)->op;
  return op == "aten.gru.input" || op == "aten.lstm.input";
}

// What a node saves: `row.saves`, with two exceptions. Pooling to one pixel is a mean and saves nothing. An FP8 linear
// layer whose weight gradient is not a product in FP8 saves its input as it is.
std::vector<std::string_view> SavesOf(const Node& node, const OpRow& row) {
  const Operand* size = node.Find("output_size");
  if (size != nullptr && *size == Operand(std::vector<int64_t>{1, 1})) {
    return {};
  }
  const Operand* in_fp8 = node.Find("weight_gradient");
  if (in_fp8 != nullptr && *in_fp8 == Operand(false)) {
    return {"weight", "input"};
  }
  return row.saves;
}

}  // namespace

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
    states_[Index(output)].trained = trained && IsFloatingPoint(graph_.type(output).dtype);
    states_[Index(output)].channels_last = IsChannelsLast(node, output);
    if (node.op == "aten.flatten.using_ints" && !ShownBy(node, output).has_value()) {
      states_[Index(uses[0])].flattened_by_copy = true;
    }
  }
}

// Convolutions use channels-last weights (worker/amp/step/format.cc) and return channels-last images; later ops keep
// the order.
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
  const auto shown = node.ValueOf(RowOf(node)->views);
  if (!shown.has_value() || graph_.type(*shown).dtype != graph_.type(output).dtype) {
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
  for (std::string_view name : SavesOf(node, *RowOf(node))) {
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

// Whether attention has no flash kernel. On a CPU LibTorch has none that drops scores, gives a mask its gradient or
// accepts a mask of three dimensions, and none for shapes other than (B, heads, T, D) with the same D for all.
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
          .is_narrow = graph_.type(query).dtype != Dtype::kFloat32};
}

// A 16-bit layer may compute in fp32. REQUIRES: the node is one recurrent layer or several.
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

// Bytes that a recurrent layer saves. A layer that computes through fp32 also saves its parameters in fp32.
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

// Bytes of an internal tensor that an op saves.
int64_t OpMemory::InnerBytes(const Node& node, std::string_view name) const {
  const ValueId result = node.outputs[0];
  if (name == "result.mask") {
    return Bytes(result);
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

// Convolutions copy an image of several channels into channels-last order first, in every pass that reads it.
int64_t OpMemory::ImageCopy(const Node& node) const {
  if (!IsConvolution(node)) {
    return 0;
  }
  const ValueId input = *node.ValueOf("input");
  return states_[Index(input)].channels_last || graph_.type(input).shape[1].factor() == 1 ? 0 : Bytes(input);
}

// Bytes of the fp32 copies that an op which computes through fp32 (IsWide) works on.
int64_t OpMemory::WideCopies(const Node& node) const {
  int64_t bytes = 0;
  for (const auto& list : {node.Uses(), node.outputs}) {
    for (ValueId id : list) {
      bytes += WideBytes(id);
    }
  }
  return bytes;
}

// Bytes that the backward pass of such an op (IsWide) needs, all in fp32: the gradient of the result and the saved
// tensors, then the gradients of the arguments. A linear layer computes the latter one by one.
int64_t OpMemory::WideBackward(const Node& node) const {
  if (!IsConvolution(node) && node.op != "ampd.linear_wide") {
    return 2 * WideCopies(node);
  }
  int64_t bytes = WideBytes(node.outputs[0]);
  for (const ValueId use : node.Uses()) {
    bytes += WideBytes(use) * (IsTrained(use) ? 2 : 1);
  }
  return IsConvolution(node) ? bytes : bytes - WideBytes(*node.ValueOf("weight"));
}

// Bytes of the losses of all elements, before they are summed.
int64_t OpMemory::UnsummedLoss(const Node& node) const {
  const bool is_by_element = node.op == "aten.mse_loss.default" || node.op == "aten.smooth_l1_loss.default" ||
                             node.op == "aten.huber_loss.default";
  return is_by_element ? Bytes(*node.ValueOf("self")) : 0;
}

// The fp32 numbers that a cross entropy over many classes computes from its logits at once.
int64_t OpMemory::LogarithmPart(const Node& node) const {
  if (node.op != kCrossEntropy.op) {
    return 0;
  }
  const ValueId logits = *node.ValueOf("self");
  const int64_t num_classes = graph_.type(logits).shape[1].factor();
  const int64_t row_bytes = num_classes * static_cast<int64_t>(sizeof(float));
  return std::min(WideBytes(logits), CrossEntropyRows(num_classes, /*on_gpu=*/false) * row_bytes);
}

int64_t OpMemory::ForwardWorkspace(const Node& node) const {
  const int64_t scores = MakesScores(node) ? AttentionForwardBytes(AttentionSizesOf(node)) : 0;
  // The two LogarithmParts: the logits in fp32, and their logarithms.
  return scores + 2 * LogarithmPart(node) + ImageCopy(node) + UnsummedLoss(node) +
         (IsWide(node) ? WideCopies(node) : 0);
}

// After flattening, the gradient is in the order of the channels, and max-pooling of channels-last images then computes
// in its own copies.
int64_t OpMemory::PoolingCopies(const Node& node) const {
  if (node.op != "aten.max_pool2d.default" || !states_[Index(node.outputs[0])].flattened_by_copy) {
    return 0;
  }
  return Bytes(*node.ValueOf("self")) + InnerBytes(node, "result.indices");
}

// Bytes of the gradient of a broadcast argument, before it is summed.
int64_t OpMemory::UnsummedGradient(const Node& node) const {
  const auto other = node.ValueOf("other");
  const bool is_repeated = node.op == "aten.mul.Tensor" && other.has_value() && IsTrained(*other) &&
                           Elements(*other) < Elements(node.outputs[0]);
  return is_repeated ? Bytes(node.outputs[0]) : 0;
}

// On a CPU, oneDNN sums the weight gradient of a depthwise convolution in fp32 blocks of 16 x 16 channels, one per
// channel, and rounds the blocks as they are.
int64_t OpMemory::BlockedWeights(const Node& node) const {
  constexpr int64_t kBlockElements = int64_t{16} * 16;
  const Operand* const groups = node.Find("groups");
  const std::string_view op = RowOf(node)->op;
  if ((op != "aten.conv2d.default" && op != "aten.convolution.default") || groups == nullptr ||
      *groups == Operand(int64_t{1})) {
    return 0;
  }
  const ValueId weight = *node.ValueOf("weight");
  const bool is_depthwise = *groups == Operand(graph_.type(weight).shape[0].factor());
  const int64_t rounded_bytes = graph_.type(weight).dtype == Dtype::kFloat32 ? 0 : Bytes(weight);
  return is_depthwise ? kBlockElements * (WideBytes(weight) + rounded_bytes) : 0;
}

// On a CPU, oneDNN reads the weights of a transposed convolution in the order of a plain one, and returns their
// gradient in that order.
int64_t OpMemory::TurnedWeights(const Node& node) const {
  if (RowOf(node)->op != "aten.conv_transpose2d.input") {
    return 0;
  }
  const ValueId weight = *node.ValueOf("weight");
  return 2 * (IsWide(node) ? WideBytes(weight) : Bytes(weight));
}

int64_t OpMemory::BackwardWorkspace(const Node& node) const {
  // The gradient between those of nll_loss and of log_softmax.
  const int64_t between = node.op == "aten.cross_entropy_loss.default" ? Bytes(*node.ValueOf("self")) : 0;
  const int64_t gates = IsRecurrent(node) ? RecurrentBackwardBytes(RecurrentSizesOf(node)) : 0;
  const int64_t scores = MakesScores(node) ? AttentionBackwardBytes(AttentionSizesOf(node)) : 0;
  // The three LogarithmParts: the logarithms, their gradients and the gradients of the logits.
  return scores + gates + between + 3 * LogarithmPart(node) + ImageCopy(node) + PoolingCopies(node) +
         UnsummedGradient(node) + BlockedWeights(node) + TurnedWeights(node) + (IsWide(node) ? WideBackward(node) : 0);
}

int64_t CrossEntropyRows(int64_t num_classes, bool on_gpu) {
  const int64_t bytes = int64_t{on_gpu ? 128 : 4} << 20;
  return std::max<int64_t>(1, bytes / (num_classes * static_cast<int64_t>(sizeof(float))));
}

bool OpMemory::PassesGradient(const Node& node, ValueId argument) const {
  const ValueId result = node.outputs[0];
  return RowOf(node)->passes_gradient && graph_.type(argument).dtype == graph_.type(result).dtype &&
         Elements(argument) == Elements(result);
}

bool OpMemory::WritesGradientOver(const Node& node, ValueId argument) const {
  return node.op == kCrossEntropy.op && node.ValueOf("self") == argument;
}

}  // namespace ampd::graph
