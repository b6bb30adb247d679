#include "graph/memory/op_memory.h"

#include <algorithm>

#include "base/glob.h"
#include "graph/fused_batch_norms.h"
#include "graph/modes.h"

namespace ampd::graph {
namespace {

// The op "ampd.linear_fp8" saves its weight unchanged, and its input in FP8 if the weight gradient is a product in FP8.
const OpRow kLinearFp8 = {
    .op = "ampd.linear_fp8", .op_class = OpClass::kLower, .saves = {"weight", "result.input_fp8"}};

// The op "ampd.cross_entropy" saves no logarithms: it computes them for a part of its rows at a time, and computes them
// again in the backward pass.
const OpRow kCrossEntropy = {.op = "ampd.cross_entropy", .op_class = OpClass::kFp32, .saves = {"self", "target"}};

// The op "ampd.linear_cross_entropy" writes the gradient of its logits over them. It saves its weight, or a padded
// copy.
const OpRow kLinearCrossEntropy = {.op = "ampd.linear_cross_entropy",
                                   .op_class = OpClass::kLower,
                                   .saves = {"input", "weight", "target", "result.loss_head"}};

// The op "ampd.layer_norm" saves no bias, and "ampd.add_layer_norm" saves the sum, its first result.
const OpRow kLayerNorm = {.op = "ampd.layer_norm", .saves = {"input", "weight", "result.mean", "result.rstd"}};
const OpRow kAddLayerNorm = {.op = "ampd.add_layer_norm", .saves = {"result", "weight", "result.mean", "result.rstd"}};

constexpr std::string_view kLinear = "ampd.linear";

bool IsFusedNorm(const Node& node) { return node.op == kLayerNorm.op || node.op == kAddLayerNorm.op; }

// The row of a node's op; for an op that computes through fp32, the row of the op it replaces.
const OpRow* RowOf(const Node& node) {
  for (const OpRow* const row : {&kLinearFp8, &kCrossEntropy, &kLinearCrossEntropy, &kLayerNorm, &kAddLayerNorm}) {
    if (node.op == row->op) {
      return row;
    }
  }
  return FindOp(ComputedBy(node.op));
}

// Whether the op computes in fp32 copies of its arguments. This holds for 16-bit products ("_wide") and for FP8
// products, which no CPU computes natively.
bool IsWide(const Node& node) {
  return node.op.starts_with("ampd.") && node.op != kCrossEntropy.op && node.op != kLinearCrossEntropy.op &&
         node.op != kFusedBatchNorm && node.op != kLinear && !IsFusedNorm(node);
}

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

// Whether the node is a fused batch norm with a ReLU.
bool EndsInRelu(const Node& node) {
  const Operand* const relu = node.Find("relu");
  return node.op == kFusedBatchNorm && relu != nullptr && *relu == Operand(true);
}

// What a node saves: `row.saves`, with three exceptions. Pooling to one pixel is a mean and saves nothing. An FP8
// linear layer whose weight gradient is not a product in FP8 saves its input as it is. A fused batch norm with an
// addition and a ReLU also saves its result; without the addition, its backward pass computes the result again from the
// input.
std::vector<std::string_view> SavesOf(const Node& node, const OpRow& row) {
  const Operand* size = node.Find("output_size");
  if (size != nullptr && *size == Operand(std::vector<int64_t>{1, 1})) {
    return {};
  }
  const Operand* in_fp8 = node.Find("weight_gradient");
  if (in_fp8 != nullptr && *in_fp8 == Operand(false)) {
    return {"weight", "input"};
  }
  if (EndsInRelu(node) && node.ValueOf("residual").has_value()) {
    std::vector<std::string_view> saves = row.saves;
    saves.push_back("result");
    return saves;
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
  std::vector<std::string_view> saves = SavesOf(node, *RowOf(node));
  if (node.op == kLinearCrossEntropy.op && PadsClasses(LossHeadSizesOf(node))) {
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

// Whether LibTorch computes the attention with all scores in memory, because it has no flash kernel for it. On a CPU
// this holds if there is dropout, if the mask has a gradient or three dimensions, and for shapes other than (B, heads,
// T, D) with the same D for all.
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

// The sizes of a recurrent op. A 16-bit layer counts as fp32 if its op computes in fp32 copies. REQUIRES: the node is
// one recurrent layer or several.
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

// Bytes that a recurrent layer saves for its backward pass. A layer that computes in fp32 copies also saves its
// parameters in fp32.
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

// Bytes of the channels-last copy of its input that a convolution makes in every pass that reads the input. There is no
// copy if the input is channels-last already or has one channel.
int64_t OpMemory::ImageCopy(const Node& node) const {
  if (!IsConvolution(node)) {
    return 0;
  }
  const ValueId input = *node.ValueOf("input");
  return states_[Index(input)].channels_last || graph_.type(input).shape[1].factor() == 1 ? 0 : Bytes(input);
}

// Bytes of all fp32 copies that the node works on. REQUIRES: its op computes in fp32 copies (IsWide).
int64_t OpMemory::WideCopies(const Node& node) const {
  int64_t bytes = 0;
  for (const auto& list : {node.Uses(), node.outputs}) {
    for (ValueId id : list) {
      bytes += WideBytes(id);
    }
  }
  return bytes;
}

// Bytes that the node's backward pass needs, all in fp32: the gradient of the result, the saved tensors, and the
// gradients of the arguments. A linear layer holds only one gradient of an argument at a time. REQUIRES: its op
// computes in fp32 copies (IsWide).
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

// Bytes of one fp32 number per logit in the part of the rows that "ampd.cross_entropy" processes at a time. Its kernels
// for a GPU need none.
int64_t OpMemory::LogarithmPart(const Node& node) const {
  if (node.op != kCrossEntropy.op || on_gpu_) {
    return 0;
  }
  const ValueId logits = *node.ValueOf("self");
  const int64_t num_classes = graph_.type(logits).shape[1].factor();
  const int64_t row_bytes = num_classes * static_cast<int64_t>(sizeof(float));
  return std::min(WideBytes(logits), CrossEntropyRows(num_classes) * row_bytes);
}

// Bytes of the partial sums of a fused batch norm, at most: each of its blocks stores two fp32 numbers for each channel
// that it sums, and there are two more for each channel (worker/kernels/cuda/batch_norm_kernels.h).
int64_t OpMemory::PartialSums(const Node& node) const {
  if (node.op != kFusedBatchNorm) {
    return 0;
  }
  constexpr int64_t kMostSums = kBatchNormSumBlocks * kBatchNormSumChannels;
  const int64_t channels = graph_.type(node.outputs[0]).shape[1].factor();
  return 2 * (std::max(kMostSums, channels) + channels) * static_cast<int64_t>(sizeof(float));
}

// Bytes of the partial sums from which a fused norm computes the gradients of its weight and bias.
int64_t OpMemory::NormPartials(const Node& node) const {
  int64_t columns = 0;
  for (const char* const name : {"weight", "bias"}) {
    const auto value = node.ValueOf(name);
    columns = IsFusedNorm(node) && value.has_value() && IsTrained(*value) ? Elements(*value) : columns;
  }
  return kLayerNormPartials * 2 * columns * static_cast<int64_t>(sizeof(float));
}

// Bytes of the partial sums from which "ampd.linear" computes the gradient of its bias, at most: each block stores one
// fp32 number for each column that it sums (worker/kernels/cuda/column_sum_kernels.h).
int64_t OpMemory::BiasPartials(const Node& node) const {
  if (node.op != kLinear || !IsTrained(*node.ValueOf("bias"))) {
    return 0;
  }
  const int64_t columns = Elements(*node.ValueOf("bias"));
  return (kColumnSumBlocks * std::min(columns, kColumnSumTile) + columns) * static_cast<int64_t>(sizeof(float));
}

int64_t OpMemory::ForwardWorkspace(const Node& node) const {
  const int64_t scores = MakesScores(node) ? AttentionForwardBytes(AttentionSizesOf(node)) : 0;
  // The two LogarithmParts: the logits in fp32, and their logarithms.
  return scores + 2 * LogarithmPart(node) + ImageCopy(node) + UnsummedLoss(node) + PartialSums(node) +
         (IsWide(node) ? WideCopies(node) : 0);
}

// Bytes of the copies that max-pooling of channels-last images makes in its backward pass. It makes copies if its
// result was flattened, because then the gradient has the order of the channels.
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

// Bytes that oneDNN needs on a CPU for the weight gradient of a depthwise convolution. It sums the gradient in fp32
// blocks of 16 x 16 channels, one block per channel, and rounds whole blocks.
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

// Bytes of the copies that oneDNN makes of a transposed convolution's weights on a CPU: it reads them in the order of a
// plain convolution, and returns their gradient in that order.
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
         UnsummedGradient(node) + BlockedWeights(node) + TurnedWeights(node) + PartialSums(node) + NormPartials(node) +
         BiasPartials(node) + (IsWide(node) ? WideBackward(node) : 0);
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
  return node.op == kAddLayerNorm.op && is_addend(argument) && is_addend(other) &&
         graph_.type(argument).dtype == graph_.type(other).dtype;
}

bool OpMemory::WritesGradientOver(const Node& node, ValueId argument) const {
  return node.op == kCrossEntropy.op && node.ValueOf("self") == argument;
}

}  // namespace ampd::graph
