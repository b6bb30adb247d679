#include "graph/cost/traffic.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "graph/cost/op_facts.h"
#include "graph/cost/op_memory.h"
#include "graph/segments.h"

namespace ampd::graph {
namespace {

// Bytes per logit that LibTorch's ops move for "ampd.cross_entropy" over 16-bit logits. Forward: a copy in fp32 (2
// read, 4 written) and log_softmax (4 read, 4 written). Backward: the copy and log_softmax again, a gradient of zeros
// (4 written), log_softmax's backward pass (8 read, 4 written), and the gradient in 16 bits (4 read, 2 written).
constexpr int64_t kLossForwardBytes = 14;
constexpr int64_t kLossBackwardBytes = 36;

bool IsBatchNorm(const Node& node) {
  return RowOf(node)->op == "aten.batch_norm.default";  // A fused batch norm has this row, too.
}

bool IsProduct(const Node& node) {
  const std::string_view op = RowOf(node)->op;
  return IsConvolution(node) || IsLinearWithBias(node) || op == "aten.linear.default" || op == "aten.matmul.default" ||
         op == "aten.bmm.default" || op == "aten.addmm.default";
}

class Traffic {
 public:
  Traffic(const Graph& program, int64_t batch_size, bool has_loss_kernels, bool finds_fp8_amaxes)
      : graph_(program),
        ops_(program, batch_size, /*trained=*/"*", /*on_gpu=*/true),
        has_loss_kernels_(has_loss_kernels),
        finds_fp8_amaxes_(finds_fp8_amaxes),
        has_gradient_(static_cast<size_t>(program.num_values())) {}

  StepTraffic Estimate() && {
    const std::vector<Segment> segments = SegmentsOf(graph_, nullptr);
    for (const Segment& segment : segments) {
      for (size_t i = segment.begin; i < segment.end; ++i) {
        traffic_.forward_bytes += Forward(graph_.nodes()[i]);
        traffic_.backward_bytes += segment.recomputed ? Forward(graph_.nodes()[i]) : 0;
      }
    }
    has_gradient_[Index(graph_.outputs()[0].value)] = true;
    for (size_t i = graph_.nodes().size(); i-- > 0;) {
      traffic_.backward_bytes += Backward(graph_.nodes()[i]);
    }
    return traffic_;
  }

 private:
  static size_t Index(ValueId value) { return static_cast<size_t>(value.index); }

  static std::set<ValueId> Distinct(const std::vector<ValueId>& values) { return {values.begin(), values.end()}; }

  int64_t Logits(const Node& node) const {
    return ops_.Bytes(*node.ValueOf("self")) / ItemSizeBytes(graph_.type(*node.ValueOf("self")).dtype);
  }

  // Whether every result is a view of an argument.
  bool IsView(const Node& node) const {
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId output) { return ops_.ShownBy(node, output).has_value(); });
  }

  int64_t Forward(const Node& node) const {
    if (IsView(node)) {
      return 0;
    }
    if (IsCrossEntropy(node)) {
      return has_loss_kernels_ ? ops_.Bytes(*node.ValueOf("self")) : kLossForwardBytes * Logits(node);
    }
    int64_t bytes = 0;
    for (const ValueId use : Distinct(node.Uses())) {
      bytes += ops_.Bytes(use);
    }
    for (const ValueId output : node.outputs) {
      bytes += ops_.ShownBy(node, output).has_value() ? 0 : ops_.Bytes(output);
    }
    for (const OpMemory::Kept& kept : ops_.Keeps(node)) {
      // The loss head writes its logits and reads them for the loss.
      bytes += kept.value.has_value() ? 0 : kept.inner_bytes * (IsLinearCrossEntropy(node) ? 2 : 1);
    }
    if (FindsAmaxes(node)) {
      bytes += ops_.Bytes(*node.ValueOf("weight"));
      bytes += node.ValueOf("input_amax").has_value() ? 0 : ops_.Bytes(*node.ValueOf("input"));
    }
    return bytes + (IsBatchNorm(node) ? ops_.Bytes(*node.ValueOf("input")) : 0);
  }

  // Whether the node is an FP8 linear layer that reads each operand whose amax is not known once more, to find it.
  bool FindsAmaxes(const Node& node) const { return finds_fp8_amaxes_ && node.op == "ampd.linear_fp8"; }

  // Bytes of the gradients of the node's results. Results without a gradient do not count.
  int64_t Incoming(const Node& node) {
    int64_t bytes = 0;
    for (const ValueId output : node.outputs) {
      bytes += has_gradient_[Index(output)] ? ops_.Bytes(output) : 0;
    }
    return bytes;
  }

  int64_t Backward(const Node& node) {
    const int64_t incoming = Incoming(node);
    if (incoming == 0 || !ops_.IsTrained(node)) {
      return 0;
    }
    int64_t moved = 0;  // Bytes of the arguments' gradients that are written or summed.
    int64_t num_gradients = 0;
    std::optional<ValueId> first;
    for (const ValueId use : node.Uses()) {
      if (!ops_.IsTrained(use)) {
        continue;
      }
      ++num_gradients;
      const bool shares = first.has_value() && ops_.SharesGradient(node, *first, use);
      first = first.value_or(use);
      const bool is_written = !shares && !IsView(node) && !ops_.PassesGradient(node, use);
      moved += (is_written ? ops_.Bytes(use) : 0) + (has_gradient_[Index(use)] ? 3 * ops_.Bytes(use) : 0);
      has_gradient_[Index(use)] = true;
    }
    if (IsView(node) || (moved == 0 && num_gradients > 0 && !IsProduct(node))) {
      return moved;  // Each argument's gradient is the gradient of the result.
    }
    if (IsCrossEntropy(node)) {
      return has_loss_kernels_ ? 2 * ops_.Bytes(*node.ValueOf("self")) : kLossBackwardBytes * Logits(node);
    }
    int64_t kept_bytes = 0;
    std::set<ValueId> counted;
    for (const OpMemory::Kept& kept : ops_.Keeps(node)) {
      if (!kept.value.has_value()) {
        kept_bytes +=
            kept.inner_bytes * (IsLinearCrossEntropy(node) ? 4 : 1);  // Logits: 1 read. Gradient: 1 write, 2 reads.
      } else if (counted.insert(*kept.value).second) {
        kept_bytes += ops_.Bytes(*kept.value);
      }
    }
    if (IsBatchNorm(node)) {  // The input and the gradient (or the masked sum of two gradients) are read twice.
      return moved + kept_bytes + incoming + ops_.Bytes(node.outputs[0]) + ops_.Bytes(*node.ValueOf("input"));
    }
    const int64_t num_reads = FindsAmaxes(node) ? 2 : IsProduct(node) ? std::max<int64_t>(num_gradients, 1) : 1;
    return moved + kept_bytes + incoming * num_reads;
  }

  const Graph& graph_;
  const OpMemory ops_;
  const bool has_loss_kernels_;
  const bool finds_fp8_amaxes_;
  std::vector<bool> has_gradient_;  // Indexed by value.
  StepTraffic traffic_;
};

}  // namespace

StepTraffic EstimateTraffic(const Graph& program, int64_t batch_size, bool has_loss_kernels, bool finds_fp8_amaxes) {
  return Traffic(program, batch_size, has_loss_kernels, finds_fp8_amaxes).Estimate();
}

}  // namespace ampd::graph
