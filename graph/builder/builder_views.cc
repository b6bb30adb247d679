// The builder's layers that return views of their argument.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/builder/builder.h"

namespace ampd::graph {
namespace {

// The number of elements of a shape, possibly a multiple of the batch size; nothing if two dimensions of the shape
// depend on the batch size.
std::optional<Dim> SizeProduct(const Shape& shape) {
  int64_t factor = 1;
  int num_batches = 0;
  for (const Dim& dim : shape) {
    factor *= dim.factor();
    num_batches += dim.is_batch() ? 1 : 0;
  }
  if (num_batches > 1) {
    return std::nullopt;
  }
  return num_batches == 1 ? Dim::Batch(factor) : Dim(factor);
}

// The size argument of view: -1 stands for the dimension that depends on the batch size.
std::vector<int64_t> ViewSizes(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : shape) {
    sizes.push_back(dim.is_batch() ? -1 : dim.factor());
  }
  return sizes;
}

}  // namespace

ValueId GraphBuilder::EmitView(std::string_view path, std::string_view op, ValueId x, std::vector<Argument> arguments,
                               Shape shape) {
  arguments.insert(arguments.begin(), {"self", x});
  return Emit(path, op, std::move(arguments), std::move(shape), graph_.type(x).dtype);
}

ValueId GraphBuilder::View(std::string_view path, ValueId x, Shape shape) {
  if (!Require(status_.ok() && SizeProduct(shape).has_value() && SizeProduct(shape) == SizeProduct(this->shape(x)),
               path, "a view has as many elements as what it shows")) {
    return x;
  }
  const std::vector<int64_t> sizes = ViewSizes(shape);
  return EmitView(path, "aten.view.default", x, {{"size", sizes}}, std::move(shape));
}

ValueId GraphBuilder::Transpose(std::string_view path, ValueId x, int64_t dim0, int64_t dim1) {
  const auto rank = status_.ok() ? static_cast<int64_t>(shape(x).size()) : 0;
  if (!Require(0 <= dim0 && dim0 < rank && 0 <= dim1 && dim1 < rank, path, "there is no such dimension")) {
    return x;
  }
  Shape result = shape(x);
  std::swap(result[static_cast<size_t>(dim0)], result[static_cast<size_t>(dim1)]);
  return EmitView(path, "aten.transpose.int", x, {{"dim0", dim0}, {"dim1", dim1}}, std::move(result));
}

ValueId GraphBuilder::Rows(std::string_view path, ValueId x, int64_t count) {
  if (!Require(
          status_.ok() && !shape(x).empty() && !shape(x)[0].is_batch() && 0 < count && count <= shape(x)[0].factor(),
          path, absl::StrCat("there are no ", count, " rows"))) {
    return x;
  }
  if (shape(x)[0] == count) {
    return x;
  }
  Shape result = shape(x);
  result[0] = count;
  return EmitView(path, "aten.slice.Tensor", x, {{"dim", int64_t{0}}, {"start", int64_t{0}}, {"end", count}},
                  std::move(result));
}

ValueId GraphBuilder::Select(std::string_view path, ValueId x, int64_t dim, int64_t index) {
  const auto rank = status_.ok() ? static_cast<int64_t>(shape(x).size()) : 0;
  const Dim extent = 0 <= dim && dim < rank ? shape(x)[static_cast<size_t>(dim)] : Dim(0);
  if (!Require(!extent.is_batch() && 0 <= index && index < extent.factor(), path,
               absl::StrCat("there is no entry ", index, " in dimension ", dim))) {
    return x;
  }
  Shape result = shape(x);
  result.erase(result.begin() + dim);
  return EmitView(path, "aten.select.int", x, {{"dim", dim}, {"index", index}}, std::move(result));
}

std::vector<ValueId> GraphBuilder::Split(std::string_view path, ValueId x, int64_t parts) {
  if (!Require(status_.ok() && parts > 0 && !shape(x).back().is_batch() && shape(x).back().factor() % parts == 0, path,
               absl::StrCat("cannot be split into ", parts, " equal parts"))) {
    return std::vector<ValueId>(static_cast<size_t>(std::max<int64_t>(parts, 1)), x);
  }
  TensorType part = graph_.type(x);
  part.shape.back() = part.shape.back().factor() / parts;
  Node node{.op = "aten.split.Tensor",
            .arguments = {{"self", x}, {"split_size", part.shape.back().factor()}, {"dim", int64_t{-1}}},
            .outputs = {},
            .module_path = std::string(path)};
  for (int64_t i = 0; i < parts; ++i) {
    node.outputs.push_back(graph_.AddValue("split", part));
  }
  std::vector<ValueId> results = node.outputs;
  graph_.AddNode(std::move(node));
  return results;
}

ValueId GraphBuilder::Flatten(std::string_view path, ValueId x) {
  if (!Require(status_.ok() && shape(x).size() >= 2, path, "flattening needs (B, ...)")) {
    return x;
  }
  int64_t features = 1;
  for (size_t i = 1; i < shape(x).size(); ++i) {
    features *= shape(x)[i].factor();
  }
  return EmitView(path, "aten.flatten.using_ints", x, {{"start_dim", int64_t{1}}, {"end_dim", int64_t{-1}}},
                  {shape(x)[0], features});
}

ValueId GraphBuilder::Unsqueeze(std::string_view path, ValueId x, int64_t dim) {
  if (!Require(status_.ok() && 0 <= dim && dim <= static_cast<int64_t>(shape(x).size()), path,
               "there is no such dimension")) {
    return x;
  }
  Shape result = shape(x);
  result.insert(result.begin() + dim, 1);
  return EmitView(path, "aten.unsqueeze.default", x, {{"dim", dim}}, std::move(result));
}

ValueId GraphBuilder::Squeeze(std::string_view path, ValueId x, int64_t dim) {
  if (!Require(status_.ok() && 0 <= dim && dim < static_cast<int64_t>(shape(x).size()) &&
                   shape(x)[static_cast<size_t>(dim)] == Dim(1),
               path, "a dimension that is left out is of size 1")) {
    return x;
  }
  Shape result = shape(x);
  result.erase(result.begin() + dim);
  return EmitView(path, "aten.squeeze.dim", x, {{"dim", dim}}, std::move(result));
}

}  // namespace ampd::graph
