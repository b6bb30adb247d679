#include "graph/memory.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/held_blocks.h"
#include "graph/op_table.h"
#include "graph/segments.h"

namespace ampd::graph {
namespace {

// Keeps its weight as it is, and its input in FP8 where the weight gradient is a product in FP8.
const OpRow kLinearFp8 = {
    .op = "ampd.linear_fp8", .op_class = OpClass::kLower, .saves = {"weight", "result.input_fp8"}};

// What an emulated op computes, by the op that it stands for.
const OpRow* RowOf(const Node& node) {
  if (node.op == kLinearFp8.op) {
    return &kLinearFp8;
  }
  static constexpr std::pair<std::string_view, std::string_view> kEmulated[] = {
      {"ampd.linear_fp16", "aten.linear.default"},
      {"ampd.conv2d_fp16", "aten.conv2d.default"},
      {"ampd.attention_fp16", "aten.scaled_dot_product_attention.default"}};
  for (const auto& [emulated, op] : kEmulated) {
    if (node.op == emulated) {
      return FindOp(op);
    }
  }
  return FindOp(node.op);
}

bool IsEmulated(const Node& node) { return node.op.starts_with("ampd."); }

size_t Index(ValueId id) { return static_cast<size_t>(id.index); }

class Run {
 public:
  Run(const Graph& program, int64_t batch_size)
      : graph_(program),
        batch_size_(batch_size),
        segments_(SegmentsOf(program)),
        values_(static_cast<size_t>(program.num_values())),
        saved_(program.nodes().size()) {
    for (const State& parameter : program.parameters()) {
      values_[Index(parameter.value)].trained = true;
      values_[Index(parameter.value)].is_parameter = true;
    }
    MarkUses();
    MarkTrained();
  }

  RunMemory Estimate() && {
    RunMemory result;
    for (const Segment& segment : segments_) {
      ForwardSegment(segment);
    }
    result.after_forward = blocks_.held();
    values_[Index(graph_.outputs()[0].value)].gradient = blocks_.Allocate(HeldBlocks::kWorkspace, sizeof(float));
    for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
      BackwardSegment(*segment);
    }
    result.after_backward = blocks_.held();
    result.peak = blocks_.peak();
    return result;
  }

  HeldBytes EstimateEvaluation() && {
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      Forward(i, /*recorded=*/false);
      DropValues(i, /*first_own=*/0);
    }
    return blocks_.peak();
  }

 private:
  struct ValueState {
    int block = HeldBlocks::kOutside;
    std::optional<int> gradient;
    size_t defined_at = 0;
    size_t last_use = 0;
    bool trained = false;  // has a gradient
    bool is_parameter = false;
    bool channels_last = false;
    bool flattened_by_copy = false;
  };

  void MarkUses() {
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      for (ValueId use : graph_.nodes()[i].Uses()) {
        values_[Index(use)].last_use = i;
      }
      for (ValueId output : graph_.nodes()[i].outputs) {
        values_[Index(output)].defined_at = i;
        values_[Index(output)].last_use = i;
      }
    }
    for (const Output& output : graph_.outputs()) {
      values_[Index(output.value)].last_use = std::numeric_limits<size_t>::max();
    }
  }

  void MarkTrained() {
    for (const Node& node : graph_.nodes()) {
      const std::vector<ValueId> uses = node.Uses();
      const bool trained = !RowOf(node)->no_gradient && std::any_of(uses.begin(), uses.end(), [this](ValueId use) {
        return values_[Index(use)].trained;
      });
      for (ValueId output : node.outputs) {
        values_[Index(output)].trained = trained && IsFloatingPoint(graph_.type(output).dtype);
        values_[Index(output)].channels_last = IsChannelsLast(node, output);
        if (node.op == "aten.flatten.using_ints" && !ShowsMemoryOf(node, *RowOf(node), output)) {
          values_[Index(uses[0])].flattened_by_copy = true;
        }
      }
    }
  }

  // Convolutions take channels-last weights (worker/amp/format.cc) and give such images; what follows keeps the order.
  bool IsChannelsLast(const Node& node, ValueId output) const {
    if (graph_.type(output).shape.size() < 4 || node.op == "aten.transpose.int" || node.op == "aten.view.default") {
      return false;
    }
    const std::vector<ValueId> uses = node.Uses();
    return RowOf(node)->op == "aten.conv2d.default" ||
           std::any_of(uses.begin(), uses.end(), [this](ValueId use) { return values_[Index(use)].channels_last; });
  }

  int64_t Elements(ValueId id) const {
    int64_t elements = 1;
    for (const Dim& dim : graph_.type(id).shape) {
      elements *= dim.At(batch_size_);
    }
    return elements;
  }
  int64_t Bytes(ValueId id) const { return Elements(id) * ItemSizeBytes(graph_.type(id).dtype); }
  int64_t WideBytes(ValueId id) const { return Elements(id) * static_cast<int64_t>(sizeof(float)); }

  bool IsTrained(const Node& node) const { return !node.outputs.empty() && values_[Index(node.outputs[0])].trained; }

  // Whether a result has no memory of its own.
  bool ShowsMemoryOf(const Node& node, const OpRow& row, ValueId output) const {
    const auto shown = node.ValueOf(row.views);
    if (!shown.has_value() || graph_.type(*shown).dtype != graph_.type(output).dtype) {
      return false;
    }
    // Flattening goes through the channels in order, which a channels-last image does not have.
    const Shape& shape = graph_.type(*shown).shape;
    return node.op != "aten.flatten.using_ints" || !values_[Index(*shown)].channels_last ||
           shape[2].factor() * shape[3].factor() == 1 || shape[1].factor() == 1;
  }

  // Pooling to one pixel is a mean, which saves nothing. A linear layer in FP8 tells which of its products are.
  static std::vector<std::string_view> SavesOf(const Node& node, const OpRow& row) {
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

  // Tensors that an op makes inside and saves.
  int64_t InnerBytes(const Node& node, std::string_view name) const {
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
    if (name == "result.log_softmax") {
      return Bytes(*node.ValueOf("self"));
    }
    // A number of fp32 a channel, or a row.
    const Shape& shape = graph_.type(result).shape;
    const int64_t rows =
        name.starts_with("result.save_") ? shape[1].factor() : Elements(result) / shape.back().factor();
    return rows * static_cast<int64_t>(sizeof(float));
  }

  // Convolutions bring an image of several channels into channels-last order first, in every pass that reads it.
  int64_t ImageCopy(const Node& node) const {
    if (RowOf(node)->op != "aten.conv2d.default") {
      return 0;
    }
    const ValueId input = *node.ValueOf("input");
    return values_[Index(input)].channels_last || graph_.type(input).shape[1].factor() == 1 ? 0 : Bytes(input);
  }

  // fp32 copies that an emulated op computes with.
  int64_t WideCopies(const Node& node) const {
    int64_t bytes = 0;
    for (const auto& list : {node.Uses(), node.outputs}) {
      for (ValueId id : list) {
        bytes += WideBytes(id);
      }
    }
    return bytes;
  }

  int64_t ForwardWorkspace(const Node& node) const {
    return ImageCopy(node) + (IsEmulated(node) ? WideCopies(node) : 0);
  }

  // Flattening hands a gradient back in the order of the channels, and pooling of channels-last images then computes in
  // copies of its own.
  int64_t PoolingCopies(const Node& node) const {
    if (node.op != "aten.max_pool2d.default" || !values_[Index(node.outputs[0])].flattened_by_copy) {
      return 0;
    }
    return Bytes(*node.ValueOf("self")) + InnerBytes(node, "result.indices");
  }

  // The gradient of an argument that was repeated, before it is summed.
  int64_t UnsummedGradient(const Node& node) const {
    const auto other = node.ValueOf("other");
    const bool is_repeated = node.op == "aten.mul.Tensor" && other.has_value() && values_[Index(*other)].trained &&
                             Elements(*other) < Elements(node.outputs[0]);
    return is_repeated ? Bytes(node.outputs[0]) : 0;
  }

  // On a CPU oneDNN sums the weights' gradient of a depthwise convolution in fp32 blocks of 16 x 16 channels, one a
  // channel, and rounds them as they are.
  int64_t BlockedWeights(const Node& node) const {
    constexpr int64_t kBlockElements = int64_t{16} * 16;
    const Operand* const groups = node.Find("groups");
    if (groups == nullptr || *groups == Operand(int64_t{1})) {
      return 0;
    }
    const ValueId weight = *node.ValueOf("weight");
    const bool is_depthwise = *groups == Operand(graph_.type(weight).shape[0].factor());
    const int64_t rounded_bytes = graph_.type(weight).dtype == Dtype::kFloat32 ? 0 : Bytes(weight);
    return is_depthwise ? kBlockElements * (WideBytes(weight) + rounded_bytes) : 0;
  }

  int64_t BackwardWorkspace(const Node& node) const {
    // Between the gradients of nll_loss and of log_softmax.
    const int64_t between = node.op == "aten.cross_entropy_loss.default" ? Bytes(*node.ValueOf("self")) : 0;
    return between + ImageCopy(node) + PoolingCopies(node) + UnsummedGradient(node) + BlockedWeights(node) +
           (IsEmulated(node) ? 2 * WideCopies(node) : 0);
  }

  // Forward, then backward.

  void ForwardSegment(const Segment& segment) {
    if (segment.recomputed) {
      for (ValueId input : segment.inputs) {
        blocks_.Hold(values_[Index(input)].block);
        kept_[segment.begin].emplace_back(input, values_[Index(input)].block);
      }
    }
    for (size_t i = segment.begin; i < segment.end; ++i) {
      Forward(i, /*recorded=*/!segment.recomputed);
      DropValues(i, /*first_own=*/0);
    }
  }

  void BackwardSegment(const Segment& segment) {
    std::vector<int> gradients;
    if (segment.recomputed) {
      // The node of the segment holds the results' gradients while the segment runs again.
      for (ValueId output : segment.outputs) {
        if (values_[Index(output)].gradient.has_value()) {
          gradients.push_back(blocks_.Hold(*values_[Index(output)].gradient));
        }
      }
      for (const auto& [input, block] : kept_[segment.begin]) {
        values_[Index(input)].block = block;
      }
      for (size_t i = segment.begin; i < segment.end; ++i) {
        Forward(i, /*recorded=*/true);
        DropValues(i, segment.begin);
      }
    }
    for (size_t i = segment.end; i-- > segment.begin;) {
      Backward(i);
    }
    if (segment.recomputed) {
      for (ValueId output : segment.outputs) {
        blocks_.Release(values_[Index(output)].block);
      }
      for (const auto& [input, block] : kept_[segment.begin]) {
        blocks_.Release(block);
      }
      for (int gradient : gradients) {
        blocks_.Release(gradient);
      }
    }
  }

  void Forward(size_t index, bool recorded) {
    const Node& node = graph_.nodes()[index];
    const OpRow& row = *RowOf(node);
    const int workspace = blocks_.Allocate(HeldBlocks::kWorkspace, ForwardWorkspace(node));
    for (ValueId output : node.outputs) {
      values_[Index(output)].block = ShowsMemoryOf(node, row, output)
                                         ? blocks_.Hold(values_[Index(*node.ValueOf(row.views))].block)
                                         : blocks_.Allocate(HeldBlocks::kActivation, Bytes(output));
    }
    std::vector<int> made;
    for (std::string_view name : SavesOf(node, row)) {
      if (name.starts_with("result.")) {
        made.push_back(blocks_.Allocate(HeldBlocks::kActivation, InnerBytes(node, name)));
      } else if (name == "result") {
        made.push_back(blocks_.Hold(values_[Index(node.outputs[0])].block));
      } else if (const auto value = node.ValueOf(name); value.has_value()) {
        made.push_back(blocks_.Hold(values_[Index(*value)].block));
      }
    }
    blocks_.Release(workspace);
    if (recorded && IsTrained(node)) {
      saved_[index] = std::move(made);
      return;
    }
    for (int block : made) {
      blocks_.Release(block);
    }
  }

  // Lets go of values that nothing reads after a node, if the node `first_own` or a later one defined them.
  void DropValues(size_t index, size_t first_own) {
    const Node& node = graph_.nodes()[index];
    std::set<ValueId> ends;
    for (const auto& list : {node.Uses(), node.outputs}) {
      ends.insert(list.begin(), list.end());
    }
    for (ValueId id : ends) {
      const ValueState& value = values_[Index(id)];
      if (value.last_use == index && value.defined_at >= first_own) {
        blocks_.Release(value.block);
      }
    }
  }

  void Backward(size_t index) {
    const Node& node = graph_.nodes()[index];
    std::vector<int> incoming;
    for (ValueId output : node.outputs) {
      if (auto& gradient = values_[Index(output)].gradient; gradient.has_value()) {
        incoming.push_back(*std::exchange(gradient, std::nullopt));
      }
    }
    std::vector<std::pair<ValueId, int>> results;
    if (!incoming.empty()) {
      const int workspace = blocks_.Allocate(HeldBlocks::kWorkspace, BackwardWorkspace(node));
      results = InputGradients(node, incoming[0]);
      blocks_.Release(workspace);
    }
    for (const auto* list : {&incoming, &saved_[index]}) {
      for (int block : *list) {
        blocks_.Release(block);
      }
    }
    saved_[index].clear();
    for (const auto& [value, gradient] : results) {
      AddGradient(values_[Index(value)], gradient);
    }
  }

  std::vector<std::pair<ValueId, int>> InputGradients(const Node& node, int incoming) {
    const OpRow& row = *RowOf(node);
    std::vector<std::pair<ValueId, int>> results;
    for (ValueId use : node.Uses()) {
      if (!values_[Index(use)].trained) {
        continue;
      }
      const bool same = row.passes_gradient && graph_.type(use).dtype == graph_.type(node.outputs[0]).dtype &&
                        Elements(use) == Elements(node.outputs[0]);
      results.emplace_back(use, same ? blocks_.Hold(incoming) : blocks_.Allocate(HeldBlocks::kWorkspace, Bytes(use)));
    }
    return results;
  }

  // As autograd sums: in place into a gradient that nobody else holds.
  void AddGradient(ValueState& value, int gradient) {
    if (!value.gradient.has_value()) {
      value.gradient = gradient;
    } else if (blocks_.HeldOnce(*value.gradient)) {
      blocks_.Release(gradient);
    } else if (blocks_.HeldOnce(gradient)) {
      blocks_.Release(std::exchange(*value.gradient, gradient));
    } else {
      const int sum = blocks_.Allocate(HeldBlocks::kWorkspace, blocks_.BytesOf(gradient));
      blocks_.Release(std::exchange(*value.gradient, sum));
      blocks_.Release(gradient);
    }
    if (value.is_parameter) {
      blocks_.BecomeGradient(*value.gradient);
    }
  }

  const Graph& graph_;
  const int64_t batch_size_;
  const std::vector<Segment> segments_;
  std::vector<ValueState> values_;
  std::vector<std::vector<int>> saved_;                          // by node
  std::map<size_t, std::vector<std::pair<ValueId, int>>> kept_;  // by a segment's first node
  HeldBlocks blocks_;
};

}  // namespace

RunMemory EstimateRun(const Graph& program, int64_t batch_size) { return Run(program, batch_size).Estimate(); }

HeldBytes EstimateEvaluation(const Graph& program, int64_t batch_size) {
  return Run(program, batch_size).EstimateEvaluation();
}

}  // namespace ampd::graph
