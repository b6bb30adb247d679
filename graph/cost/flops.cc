#include "graph/cost/flops.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "graph/cost/op_facts.h"
#include "graph/cost/op_memory.h"
#include "graph/cost/recurrent_memory.h"

namespace ampd::graph {
namespace {

constexpr double kMultiplyAndAdd = 2;

class FlopCounter {
 public:
  FlopCounter(const Graph& program, int64_t batch_size, const std::string& trained, bool on_gpu)
      : graph_(program), batch_size_(batch_size), on_gpu_(on_gpu), ops_(program, batch_size, trained, on_gpu) {}

  std::map<Dtype, double> Count() && {
    for (const Node& node : graph_.nodes()) {
      CountNode(node);
    }
    return std::move(flops_);
  }

 private:
  void CountNode(const Node& node) {
    const std::string_view op = RowOf(node)->op;
    if (IsRecurrent(node)) {
      const double forward = RecurrentFlops(ops_.RecurrentSizesOf(node));
      flops_[FormatOf(node, "input")] += ops_.IsTrained(node) ? 3 * forward : forward;
    } else if (op == "aten.scaled_dot_product_attention.default") {
      CountAttention(node);
    } else if (IsLinearCrossEntropy(node)) {
      CountProduct(node, "input", "weight", Elements(*node.ValueOf("target")) * Elements(*node.ValueOf("weight")));
    } else if (op == "aten.conv_transpose2d.input") {
      CountProduct(node, "input", "weight", Elements(*node.ValueOf("input")) * PerChannel(*node.ValueOf("weight")));
    } else if (op == "aten.conv2d.default" || op == "aten.convolution.default" || op == "aten.linear.default" ||
               op == "ampd.linear_fp8" || IsLinearWithBias(node)) {
      CountProduct(node, "input", "weight", Elements(node.outputs[0]) * PerChannel(*node.ValueOf("weight")));
    } else {
      CountMatrixProduct(node, op);
    }
  }

  void CountMatrixProduct(const Node& node, std::string_view op) {
    struct Operands {
      std::string_view op, left, right;
    };
    for (const Operands& product : std::initializer_list<Operands>{{"aten.addmm.default", "mat1", "mat2"},
                                                                   {"aten.baddbmm.default", "batch1", "batch2"},
                                                                   {"aten.bmm.default", "self", "mat2"},
                                                                   {"aten.matmul.default", "self", "other"},
                                                                   {"aten.mm.default", "self", "mat2"}}) {
      if (op == product.op) {
        const double depth = Last(*node.ValueOf(product.left));
        CountProduct(node, product.left, product.right, Elements(node.outputs[0]) * depth);
      }
    }
  }

  // Adds the FLOPs of a product of two arguments, and of the products that compute their gradients. `multiplications`:
  // the number of multiplications in the forward pass.
  void CountProduct(const Node& node, std::string_view left, std::string_view right, double multiplications) {
    const double flops = kMultiplyAndAdd * multiplications;
    flops_[FormatOf(node, left, "forward")] += flops;
    if (ops_.IsTrained(node) && ops_.IsTrained(*node.ValueOf(left))) {
      flops_[FormatOf(node, left, "input_gradient")] += flops;
    }
    if (ops_.IsTrained(node) && ops_.IsTrained(*node.ValueOf(right))) {
      flops_[FormatOf(node, left, "weight_gradient")] += flops;
    }
  }

  // Adds the FLOPs of an attention's products. The forward pass has two products: the scores and the result. The
  // backward pass has up to four: the gradients of the value, the softmax, the query and the key.
  void CountAttention(const Node& node) {
    const ValueId query = *node.ValueOf("query");
    const ValueId key = *node.ValueOf("key");
    const ValueId value = *node.ValueOf("value");
    const Shape& keys = graph_.type(key).shape;
    const double scores = Elements(query) / std::max(Last(query), 1.0) * Size(keys[keys.size() - 2]);
    const double by_width = kMultiplyAndAdd * scores * Last(query);
    const double by_value = kMultiplyAndAdd * scores * Last(value);
    double flops = by_width + by_value;
    if (ops_.IsTrained(node)) {
      flops += ops_.IsTrained(value) ? by_value : 0;
      flops += ops_.IsTrained(query) || ops_.IsTrained(key) ? by_value : 0;
      flops += (ops_.IsTrained(query) ? by_width : 0) + (ops_.IsTrained(key) ? by_width : 0);
    }
    flops_[FormatOf(node, "query")] += flops;
  }

  static double RecurrentFlops(const RecurrentSizes& sizes) {
    const double gates = sizes.is_lstm ? 4 : 3;
    const auto hidden = static_cast<double>(sizes.hidden);
    const auto directions = static_cast<double>(sizes.num_directions);
    double inputs = static_cast<double>(sizes.in_features) + hidden;
    inputs += static_cast<double>(sizes.num_layers - 1) * (directions * hidden + hidden);
    return kMultiplyAndAdd * static_cast<double>(sizes.batch * sizes.length) * directions * gates * hidden * inputs;
  }

  // The format of the numbers that the node multiplies. `product`: for an FP8 layer, the name of one of its products.
  Dtype FormatOf(const Node& node, std::string_view argument, std::string_view product = "") const {
    const Dtype given = graph_.type(*node.ValueOf(argument)).dtype;
    if (node.op != "ampd.linear_fp8") {
      return IsWide(node) ? Dtype::kFloat32 : given;
    }
    const Operand* const in_fp8 = node.Find(product);
    if (in_fp8 != nullptr && *in_fp8 == Operand(false)) {
      return given;
    }
    return on_gpu_ ? Dtype::kFloat8E4M3 : Dtype::kFloat32;
  }

  double Size(const Dim& dim) const { return static_cast<double>(dim.At(batch_size_)); }
  double Last(ValueId value) const { return Size(graph_.type(value).shape.back()); }
  double Elements(ValueId value) const {
    double elements = 1;
    for (const Dim& dim : graph_.type(value).shape) {
      elements *= Size(dim);
    }
    return elements;
  }
  // The number of elements of a weight for each entry of its first dimension.
  double PerChannel(ValueId weight) const {
    return Elements(weight) / std::max(Size(graph_.type(weight).shape.front()), 1.0);
  }

  const Graph& graph_;
  const int64_t batch_size_;
  const bool on_gpu_;
  const OpMemory ops_;
  std::map<Dtype, double> flops_;
};

}  // namespace

std::map<Dtype, double> CountFlops(const Graph& program, int64_t batch_size, const std::string& trained, bool on_gpu) {
  return FlopCounter(program, batch_size, trained, on_gpu).Count();
}

}  // namespace ampd::graph
