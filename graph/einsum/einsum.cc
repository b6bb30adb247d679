#include "graph/einsum/einsum.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/einsum/einsum_equation.h"
#include "graph/rewriter.h"

namespace ampd::graph {
namespace {

constexpr char kEinsum[] = "aten.einsum.default";

using Dims = std::vector<size_t>;

bool IsOne(const Dim& dim) { return dim == Dim(1); }

std::vector<int64_t> Numbers(const Dims& dims) { return {dims.begin(), dims.end()}; }

// The product of the sizes of dimensions. Nothing if a graph can't represent it: it overflows, or has the batch size
// twice.
std::optional<Dim> ProductOf(const Shape& shape, const Dims& dims) {
  int64_t factor = 1;
  bool is_batch = false;
  for (const size_t dim : dims) {
    const bool overflows = __builtin_mul_overflow(factor, shape[dim].factor(), &factor);
    if (overflows || (is_batch && shape[dim].is_batch())) {
      return std::nullopt;
    }
    is_batch = is_batch || shape[dim].is_batch();
  }
  return is_batch ? Dim::Batch(factor) : Dim(factor);
}

struct Tensor {
  ValueId value;
  Dtype dtype;
  Shape shape;
};

// The dtype of the product of two tensors. REQUIRES: the dtypes are equal, or both are floating-point.
Dtype DtypeOfProduct(Dtype left, Dtype right) {
  const bool is_double = left == Dtype::kFloat64 || right == Dtype::kFloat64;
  return left == right ? left : is_double ? Dtype::kFloat64 : Dtype::kFloat32;
}

// Emits the ops of one einsum.
class Decomposition {
 public:
  Decomposition(const Node& node, Rewriter& rewriter) : node_(node), rewriter_(rewriter) {}

  // Returns the operand with each of its dimensions moved to its place in the einsum, and with dimensions of size 1 at
  // the other places.
  Tensor InPlaces(Tensor tensor, const Dims& dims, size_t num_places) {
    constexpr size_t kNone = SIZE_MAX;
    Dims permutation(num_places, kNone);
    size_t next = 0;
    for (const size_t place : dims) {
      if (permutation[place] == kNone) {
        permutation[place] = next++;
      } else {
        tensor = Diagonal(std::move(tensor), permutation[place], next);
      }
    }
    Shape shape = tensor.shape;
    for (size_t& dim : permutation) {
      if (dim == kNone) {
        shape.emplace_back(1);
        dim = next++;
      }
    }
    return Permute(Reshape(tensor, std::move(shape)), permutation);
  }

  Tensor Sum(const Tensor& tensor, const Dims& dims, bool keeps_dims) {
    if (dims.empty()) {
      return tensor;
    }
    Shape shape;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      const bool is_summed = std::find(dims.begin(), dims.end(), i) != dims.end();
      if (keeps_dims || !is_summed) {
        shape.push_back(is_summed ? Dim(1) : tensor.shape[i]);
      }
    }
    return Emit("aten.sum.dim_IntList", {{"self", tensor.value}, {"dim", Numbers(dims)}, {"keepdim", keeps_dims}},
                IsFloatingPoint(tensor.dtype) ? tensor.dtype : Dtype::kInt64, std::move(shape));
  }

  // Returns the product of two tensors, summed over the dimensions `summed`, which stay in the result with size 1.
  // Nothing if a graph can't represent the result.
  std::optional<Tensor> Multiply(const Tensor& left, const Tensor& right, const Dims& summed) {
    if (summed.empty()) {
      Shape shape;
      for (size_t i = 0; i < left.shape.size(); ++i) {
        shape.push_back(IsOne(left.shape[i]) ? right.shape[i] : left.shape[i]);
      }
      return Emit("aten.mul.Tensor", {{"self", left.value}, {"other", right.value}},
                  DtypeOfProduct(left.dtype, right.dtype), std::move(shape));
    }
    Dims both, only_left, only_right;
    for (size_t i = 0; i < left.shape.size(); ++i) {
      if (std::find(summed.begin(), summed.end(), i) == summed.end()) {
        const bool in_left = !IsOne(left.shape[i]), in_right = !IsOne(right.shape[i]);
        (in_left && in_right ? both : in_left ? only_left : only_right).push_back(i);
      }
    }
    return MultiplyMatrices(left, right, {both, only_left, summed, only_right});
  }

  Tensor Reshape(const Tensor& tensor, Shape shape) {
    if (shape == tensor.shape) {
      return tensor;
    }
    const auto is_batch = [](const Dim& dim) { return dim.is_batch(); };
    Operand sizes = shape;
    if (std::count_if(shape.begin(), shape.end(), is_batch) <= 1) {
      std::vector<int64_t> numbers;
      for (const Dim& dim : shape) {
        numbers.push_back(dim.is_batch() ? -1 : dim.factor());
      }
      sizes = std::move(numbers);
    }
    return Emit("aten.reshape.default", {{"self", tensor.value}, {"shape", std::move(sizes)}}, tensor.dtype,
                std::move(shape));
  }

  // Returns a view of the tensor with its dimensions in the order `order`.
  Tensor InOrder(const Tensor& tensor, const Dims& order) {
    Shape shape;
    for (const size_t dim : order) {
      shape.push_back(tensor.shape[dim]);
    }
    return Emit("aten.permute.default", {{"self", tensor.value}, {"dims", Numbers(order)}}, tensor.dtype,
                std::move(shape));
  }

 private:
  // The dimensions of a matrix product in four groups. `both`: in both factors and the result. `left`, `right`: in one
  // factor and the result. `summed`: in both factors, but not in the result.
  struct Groups {
    const Dims &both, &left, &summed, &right;
  };

  static Dims Joined(std::initializer_list<const Dims*> groups) {
    Dims dims;
    for (const Dims* const group : groups) {
      dims.insert(dims.end(), group->begin(), group->end());
    }
    return dims;
  }

  std::optional<Tensor> MultiplyMatrices(const Tensor& left, const Tensor& right, const Groups& of) {
    const auto batch = ProductOf(left.shape, of.both), rows = ProductOf(left.shape, of.left),
               summed = ProductOf(left.shape, of.summed), columns = ProductOf(right.shape, of.right);
    if (!batch.has_value() || !rows.has_value() || !summed.has_value() || !columns.has_value()) {
      return std::nullopt;
    }
    const Tensor first =
        Reshape(Permute(left, Joined({&of.both, &of.left, &of.summed, &of.right})), {*batch, *rows, *summed});
    const Tensor second =
        Reshape(Permute(right, Joined({&of.both, &of.summed, &of.right, &of.left})), {*batch, *summed, *columns});
    const Tensor product = Emit("aten.bmm.default", {{"self", first.value}, {"mat2", second.value}},
                                DtypeOfProduct(left.dtype, right.dtype), {*batch, *rows, *columns});
    // The dimensions in the order of the matrix product, and the permutation that moves them back to their places.
    const Dims order = Joined({&of.both, &of.left, &of.summed, &of.right});
    Shape shape;
    Dims back(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      const size_t dim = order[i];
      const bool is_summed = i >= of.both.size() + of.left.size() && i < order.size() - of.right.size();
      shape.push_back(is_summed ? Dim(1) : IsOne(left.shape[dim]) ? right.shape[dim] : left.shape[dim]);
      back[dim] = i;
    }
    return Permute(Reshape(product, std::move(shape)), back);
  }

  Tensor Diagonal(Tensor tensor, size_t first, size_t second) {
    Shape shape = tensor.shape;
    const Dim size = shape[first];
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(second));
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(first));
    shape.push_back(size);
    const size_t last = shape.size() - 1;
    tensor =
        Emit("aten.diagonal.default",
             {{"self", tensor.value}, {"dim1", static_cast<int64_t>(first)}, {"dim2", static_cast<int64_t>(second)}},
             tensor.dtype, std::move(shape));
    Dims back(last);
    std::iota(back.begin(), back.end(), size_t{0});
    back.insert(back.begin() + static_cast<ptrdiff_t>(first), last);
    return Permute(std::move(tensor), back);
  }

  Tensor Permute(Tensor tensor, const Dims& order) {
    return std::is_sorted(order.begin(), order.end()) ? tensor : InOrder(tensor, order);
  }

  Tensor Emit(const char* op, std::vector<Argument> arguments, Dtype dtype, Shape shape) {
    Node node = node_;
    node.op = op;
    node.arguments = std::move(arguments);
    node.outputs = {};
    node.part_of = kEinsum;
    const std::string name = rewriter_.target().value(node_.outputs[0]).name;
    return {rewriter_.Emit(std::move(node), name, {dtype, shape}), dtype, shape};
  }

  const Node& node_;
  Rewriter& rewriter_;
};

// The order in which pairs of operands are multiplied, as indexes into the list of remaining operands.
absl::StatusOr<std::vector<int64_t>> PathOf(const Node& node, size_t num_operands) {
  const Operand* const given = node.Find("path");
  const auto* const path = given == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(given);
  if (path == nullptr) {
    return std::vector<int64_t>();
  }
  if (path->size() != (num_operands == 1 ? 1 : 2 * (num_operands - 1))) {
    return absl::InvalidArgumentError("its path is not of all its operands");
  }
  size_t num_left = num_operands;
  for (size_t i = 0; i + 1 < path->size(); i += 2, --num_left) {
    const auto [least, most] = std::minmax((*path)[i], (*path)[i + 1]);
    if (least < 0 || most >= static_cast<int64_t>(num_left) || least == most) {
      return absl::InvalidArgumentError("its path names operands that it has not");
    }
  }
  return *path;
}

// An einsum whose equation and path are valid.
class Einsum {
 public:
  Einsum(const Node& node, EinsumEquation equation, std::vector<int64_t> path)
      : node_(node), equation_(std::move(equation)), path_(std::move(path)), counts_(equation_.num_places) {}

  // Returns the value that replaces the result; nothing if a graph can't represent the einsum.
  std::optional<ValueId> Decompose(const std::vector<Tensor>& operands, Rewriter& rewriter) {
    Decomposition parts(node_, rewriter);
    std::deque<Tensor> left;
    for (size_t i = 0; i < operands.size(); ++i) {
      left.push_back(parts.InPlaces(operands[i], equation_.operands[i], equation_.num_places));
      for (size_t place = 0; place < equation_.num_places; ++place) {
        counts_[place] += IsOne(left.back().shape[place]) ? 0 : 1;
      }
    }
    size_t step = 0;
    while (left.size() > 1) {
      auto product = MultiplyNext(left, step++, parts);
      if (!product.has_value()) {
        return std::nullopt;
      }
      left.insert(path_.empty() ? left.begin() : left.end(), *std::move(product));
    }
    Dims summed(equation_.num_places - equation_.num_results);
    std::iota(summed.begin(), summed.end(), equation_.num_results);
    if (operands.size() == 1) {
      const Tensor sum = parts.Sum(left[0], summed, /*keeps_dims=*/false);
      return sum.value == operands[0].value ? Whole(sum, parts).value : sum.value;
    }
    Shape shape = left[0].shape;
    shape.resize(equation_.num_results, Dim(1));
    return parts.Reshape(left[0], std::move(shape)).value;
  }

 private:
  // Emits an op that returns the whole operand unchanged. The einsum's result must be computed by an op, because a
  // policy may lower the dtype of an op but not that of an input.
  static Tensor Whole(const Tensor& operand, Decomposition& parts) {
    Dims order(operand.shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    return parts.InOrder(operand, order);
  }

  // Removes the next pair of operands from the list `left` and multiplies the two. Sums over the places (dimensions of
  // the einsum) that no remaining operand has.
  std::optional<Tensor> MultiplyNext(std::deque<Tensor>& left, size_t step, Decomposition& parts) {
    auto i = static_cast<ptrdiff_t>(path_.empty() ? 0 : std::min(path_[2 * step], path_[2 * step + 1]));
    auto j = static_cast<ptrdiff_t>(path_.empty() ? 1 : std::max(path_[2 * step], path_[2 * step + 1]));
    Tensor a = left[static_cast<size_t>(i)], b = left[static_cast<size_t>(j)];
    left.erase(left.begin() + j);
    left.erase(left.begin() + i);
    Dims of_both, of_a, of_b;
    for (size_t place = equation_.num_results; place < equation_.num_places; ++place) {
      const bool in_a = !IsOne(a.shape[place]), in_b = !IsOne(b.shape[place]);
      const int count = in_a && in_b ? --counts_[place] : counts_[place];
      if (count == 1 && (in_a || in_b)) {
        (in_a && in_b ? of_both : in_a ? of_a : of_b).push_back(place);
        counts_[place] = 0;
      }
    }
    a = parts.Sum(a, of_a, /*keeps_dims=*/true);
    b = parts.Sum(b, of_b, /*keeps_dims=*/true);
    return parts.Multiply(a, b, of_both);
  }

  const Node& node_;
  const EinsumEquation equation_;
  const std::vector<int64_t> path_;
  std::vector<int> counts_;  // For each place: number of operands whose size there is not 1.
};

absl::Status BadEinsum(const Node& node, std::string_view why) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_EINSUM", absl::StrCat(node.Where(), ": ", std::string(why)));
}

// Whether the operands' sizes fit together: at each place of the equation all sizes are equal, or 1.
bool GoTogether(const EinsumEquation& equation, const std::vector<Tensor>& operands) {
  std::vector<Dim> sizes(equation.num_places, Dim(1));
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t j = 0; j < operands[i].shape.size(); ++j) {
      Dim& size = sizes[equation.operands[i][j]];
      const Dim& given = operands[i].shape[j];
      if (!IsOne(size) && !IsOne(given) && size != given) {
        return false;
      }
      size = IsOne(size) ? given : size;
    }
  }
  return true;
}

// Whether the operands can be multiplied: all their dtypes are floating-point, or all are equal (DtypeOfProduct).
bool HaveAProduct(const std::vector<Tensor>& operands) {
  const auto is_floating = [](const Tensor& operand) { return IsFloatingPoint(operand.dtype); };
  const auto is_as_first = [&](const Tensor& operand) { return operand.dtype == operands[0].dtype; };
  return std::all_of(operands.begin(), operands.end(), is_floating) ||
         std::all_of(operands.begin(), operands.end(), is_as_first);
}

std::vector<Tensor> OperandsOf(const Graph& graph, const Node& node) {
  std::vector<Tensor> operands;
  for (const ValueId use : node.Uses()) {
    operands.push_back({use, graph.type(use).dtype, graph.type(use).shape});
  }
  return operands;
}

absl::StatusOr<std::optional<ValueId>> Replacement(const Graph& graph, const Node& node, Rewriter& rewriter) {
  const Operand* const text = node.Find("equation");
  const auto* const equation = text == nullptr ? nullptr : std::get_if<std::string>(text);
  const std::vector<Tensor> operands = OperandsOf(graph, node);
  if (equation == nullptr || operands.empty() || node.outputs.size() != 1) {
    return BadEinsum(node, "it has no equation, or no operand");
  }
  std::vector<size_t> ranks;
  for (const Tensor& operand : operands) {
    ranks.push_back(operand.shape.size());
  }
  auto parsed = ParseEinsum(*equation, ranks);
  auto path = PathOf(node, operands.size());
  if (!parsed.ok() || !path.ok()) {
    return BadEinsum(node, std::string((parsed.ok() ? path.status() : parsed.status()).message()));
  }
  if (!GoTogether(*parsed, operands)) {
    return BadEinsum(node, "its operands have several sizes where its equation has one letter");
  }
  if (!HaveAProduct(operands)) {
    return std::nullopt;
  }
  return Einsum(node, *std::move(parsed), *std::move(path)).Decompose(operands, rewriter);
}

}  // namespace

absl::StatusOr<Graph> WithoutEinsums(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    if (node.op != kEinsum) {
      rewriter.Keep(node);
      continue;
    }
    AMPD_ASSIGN_OR_RETURN(const std::optional<ValueId> replacement, Replacement(graph, node, rewriter));
    if (replacement.has_value()) {
      rewriter.ReplaceUses(node.outputs[0], *replacement);
    } else {
      rewriter.Keep(node);
    }
  }
  return std::move(rewriter).Finish();
}

}  // namespace ampd::graph
