#include "graph/builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace ampd::graph {
namespace {

std::string Join(std::string_view path, std::string_view name) {
  return path.empty() ? std::string(name) : absl::StrCat(std::string(path), ".", std::string(name));
}

// "aten.conv2d.default" -> "conv2d", the name that results get.
std::string_view ShortName(std::string_view op) {
  op.remove_prefix(op.find('.') + 1);
  return op.substr(0, op.find('.'));
}

bool EndsWith(const Shape& shape, const Shape& end) {
  return shape.size() >= end.size() && std::equal(end.rbegin(), end.rend(), shape.rbegin());
}

// The elements of a shape, a multiple of the batch size or not; nothing when it has two batch dimensions.
std::optional<Dim> ElementsOf(const Shape& shape) {
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

// The argument of view: -1 stands for the dimension that only the batch size tells.
std::vector<int64_t> ViewSizes(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : shape) {
    sizes.push_back(dim.is_batch() ? -1 : dim.factor());
  }
  return sizes;
}

}  // namespace

bool GraphBuilder::Require(bool ok, std::string_view path, std::string_view what) {
  if (!status_.ok()) {
    return false;
  }
  if (!ok) {
    const std::string layer = path.empty() ? graph_.name() : absl::StrCat(graph_.name(), " layer ", std::string(path));
    status_ = Error(absl::StatusCode::kInvalidArgument, "INVALID_MODEL", absl::StrCat(layer, ": ", std::string(what)));
  }
  return ok;
}

ValueId GraphBuilder::Emit(std::string_view path, std::string_view op, std::vector<Argument> arguments, Shape shape) {
  return graph_.AddNode(
      {.op = std::string(op), .arguments = std::move(arguments), .outputs = {}, .module_path = std::string(path)},
      ShortName(op), {Dtype::kFloat32, std::move(shape)});
}

ValueId GraphBuilder::Elementwise(std::string_view path, std::string_view op, ValueId x) {
  if (!Require(true, path, "")) {
    return x;
  }
  return Emit(path, op, {{"self", x}}, shape(x));
}

ValueId GraphBuilder::Binary(std::string_view path, std::string_view op, ValueId x, ValueId y) {
  if (!Require(status_.ok() && EndsWith(shape(x), shape(y)), path, "adds or multiplies tensors of different shapes")) {
    return x;
  }
  return Emit(path, op, {{"self", x}, {"other", y}}, shape(x));
}

std::optional<ValueId> GraphBuilder::Again(const std::vector<State>& states, std::string_view name,
                                           const Shape& shape) {
  const auto known = std::find_if(states.begin(), states.end(), [name](const State& one) { return one.name == name; });
  if (known == states.end()) {
    return std::nullopt;
  }
  Require(this->shape(known->value) == shape, name, "is there already, with another shape");
  return known->value;
}

ValueId GraphBuilder::Parameter(std::string_view name, Shape shape, Initializer initializer) {
  if (const auto known = Again(graph_.parameters(), name, shape); known.has_value()) {
    return *known;
  }
  return graph_.AddParameter(name, {Dtype::kFloat32, std::move(shape)}, initializer);
}

Operand GraphBuilder::LayerParameter(std::string_view path, std::string_view name, Shape shape,
                                     Initializer initializer) {
  return Parameter(Join(path, name), std::move(shape), initializer);
}

Operand GraphBuilder::Buffer(std::string_view path, std::string_view name, Shape shape, double value) {
  const std::string full = Join(path, name);
  if (const auto known = Again(graph_.buffers(), full, shape); known.has_value()) {
    return *known;
  }
  return graph_.AddBuffer(full, {Dtype::kFloat32, std::move(shape)}, Initializer::Constant(value));
}

ValueId GraphBuilder::Input(std::string_view name, TensorType type) { return graph_.AddInput(name, std::move(type)); }

void GraphBuilder::Output(std::string_view name, ValueId value) { graph_.AddOutput(name, value); }

ValueId GraphBuilder::Conv2d(std::string_view path, ValueId x, const Conv2dOptions& options) {
  const Conv2dOptions& o = options;
  if (!Require(o.out_channels > 0 && o.kernel_size > 0 && o.stride > 0 && o.padding >= 0 && o.groups > 0, path,
               "a convolution needs positive channels, kernel size, stride and groups") ||
      !Require(shape(x).size() == 4, path, "a convolution needs an input of shape (B, C, H, W)")) {
    return x;
  }
  const int64_t in_channels = shape(x)[1].factor();
  const int64_t height = (shape(x)[2].factor() + 2 * o.padding - o.kernel_size) / o.stride + 1;
  const int64_t width = (shape(x)[3].factor() + 2 * o.padding - o.kernel_size) / o.stride + 1;
  if (!Require(
          in_channels % o.groups == 0 && o.out_channels % o.groups == 0, path,
          absl::StrCat("channels ", in_channels, " and ", o.out_channels, " must divide into ", o.groups, " groups")) ||
      !Require(height > 0 && width > 0, path, "the image is smaller than the kernel")) {
    return x;
  }
  const int64_t fan_in = in_channels / o.groups * o.kernel_size * o.kernel_size;
  const Operand weight =
      LayerParameter(path, "weight", {o.out_channels, in_channels / o.groups, o.kernel_size, o.kernel_size},
                     o.weight.value_or(Initializer::KaimingUniform(fan_in)));
  const Operand bias = o.bias ? LayerParameter(path, "bias", {o.out_channels}, Initializer::Bias(fan_in)) : Operand();
  return Emit(path, "aten.conv2d.default",
              {{"input", x},
               {"weight", weight},
               {"bias", bias},
               {"stride", std::vector<int64_t>{o.stride, o.stride}},
               {"padding", std::vector<int64_t>{o.padding, o.padding}},
               {"dilation", std::vector<int64_t>{1, 1}},
               {"groups", o.groups}},
              {shape(x)[0], o.out_channels, height, width});
}

ValueId GraphBuilder::MaxPool2d(std::string_view path, ValueId x, const MaxPool2dOptions& options) {
  const int64_t kernel = options.kernel_size;
  const int64_t stride = options.stride == 0 ? kernel : options.stride;
  const int64_t padding = options.padding;
  if (!Require(kernel > 0 && stride > 0, path, "pooling needs a positive kernel size and stride") ||
      !Require(padding >= 0 && padding <= kernel / 2, path, "pooling pads by at most half of its window") ||
      !Require(shape(x).size() == 4, path, "pooling needs an input of shape (B, C, H, W)")) {
    return x;
  }
  const Shape& in = shape(x);
  const int64_t height = in[2].factor() + 2 * padding - kernel;
  const int64_t width = in[3].factor() + 2 * padding - kernel;
  if (!Require(height >= 0 && width >= 0, path,
               absl::StrCat("an image of ", in[2].factor(), " x ", in[3].factor(),
                            " pixels is too small for pooling by ", kernel))) {
    return x;
  }
  std::vector<Argument> arguments = {{"self", x},
                                     {"kernel_size", std::vector<int64_t>{kernel, kernel}},
                                     {"stride", std::vector<int64_t>{stride, stride}}};
  if (padding > 0) {
    arguments.push_back({"padding", std::vector<int64_t>{padding, padding}});
  }
  return Emit(path, "aten.max_pool2d.default", std::move(arguments),
              {in[0], in[1], height / stride + 1, width / stride + 1});
}

ValueId GraphBuilder::GlobalAvgPool2d(std::string_view path, ValueId x) {
  if (!Require(status_.ok() && shape(x).size() == 4, path, "pooling needs an input of shape (B, C, H, W)")) {
    return x;
  }
  return Emit(path, "aten.adaptive_avg_pool2d.default", {{"self", x}, {"output_size", std::vector<int64_t>{1, 1}}},
              {shape(x)[0], shape(x)[1], 1, 1});
}

ValueId GraphBuilder::Linear(std::string_view path, ValueId x, int64_t out_features, bool bias) {
  if (!Require(out_features > 0, path, "a linear layer needs at least one output") ||
      !Require(shape(x).size() >= 2 && !shape(x).back().is_batch(), path, "a linear layer needs (B, ..., features)")) {
    return x;
  }
  const int64_t in_features = shape(x).back().factor();
  const Operand weight =
      LayerParameter(path, "weight", {out_features, in_features}, Initializer::KaimingUniform(in_features));
  const Operand offset =
      bias ? LayerParameter(path, "bias", {out_features}, Initializer::Bias(in_features)) : Operand();
  Shape result = shape(x);
  result.back() = out_features;
  return Emit(path, "aten.linear.default", {{"input", x}, {"weight", weight}, {"bias", offset}}, std::move(result));
}

ValueId GraphBuilder::Conv1d(std::string_view path, ValueId x, int64_t out_features, Initializer weight) {
  if (!Require(out_features > 0, path, "a linear layer needs at least one output") ||
      !Require(shape(x).size() >= 2 && !shape(x).back().is_batch(), path, "a linear layer needs (B, ..., features)")) {
    return x;
  }
  const ValueId stored = Parameter(Join(path, "weight"), {shape(x).back(), out_features}, weight);
  const Operand bias = LayerParameter(path, "bias", {out_features}, Initializer::Constant(0));
  Shape result = shape(x);
  result.back() = out_features;
  return Emit(path, "aten.linear.default", {{"input", x}, {"weight", Transpose(path, stored, 0, 1)}, {"bias", bias}},
              std::move(result));
}

ValueId GraphBuilder::TiedLinear(std::string_view path, ValueId x, ValueId weight) {
  if (!Require(status_.ok() && shape(weight).size() == 2 && shape(x).back() == shape(weight)[1], path,
               "a tied weight needs the shape (out, in)")) {
    return x;
  }
  Shape result = shape(x);
  result.back() = shape(weight)[0];
  return Emit(path, "aten.linear.default", {{"input", x}, {"weight", weight}}, std::move(result));
}

ValueId GraphBuilder::Embedding(std::string_view path, ValueId indices, ValueId table) {
  if (!Require(status_.ok() && graph_.type(indices).dtype == Dtype::kInt64 && shape(table).size() == 2, path,
               "an embedding needs int64 indices and a table (N, C)")) {
    return indices;
  }
  Shape result = shape(indices);
  result.push_back(shape(table)[1]);
  return Emit(path, "aten.embedding.default", {{"weight", table}, {"indices", indices}}, std::move(result));
}

ValueId GraphBuilder::Attention(std::string_view path, ValueId query, ValueId key, ValueId value, bool is_causal) {
  if (!Require(status_.ok() && shape(query).size() == 4 && shape(query) == shape(key) && shape(key) == shape(value),
               path, "attention needs query, key and value of one shape (B, heads, T, D)")) {
    return query;
  }
  return Emit(path, "aten.scaled_dot_product_attention.default",
              {{"query", query}, {"key", key}, {"value", value}, {"is_causal", is_causal}}, shape(query));
}

ValueId GraphBuilder::View(std::string_view path, ValueId x, Shape shape) {
  if (!Require(status_.ok() && ElementsOf(shape).has_value() && ElementsOf(shape) == ElementsOf(this->shape(x)), path,
               "a view has as many elements as what it shows")) {
    return x;
  }
  const std::vector<int64_t> sizes = ViewSizes(shape);
  return Emit(path, "aten.view.default", {{"self", x}, {"size", sizes}}, std::move(shape));
}

ValueId GraphBuilder::Transpose(std::string_view path, ValueId x, int64_t dim0, int64_t dim1) {
  const auto rank = status_.ok() ? static_cast<int64_t>(shape(x).size()) : 0;
  if (!Require(0 <= dim0 && dim0 < rank && 0 <= dim1 && dim1 < rank, path, "there is no such dimension")) {
    return x;
  }
  Shape result = shape(x);
  std::swap(result[static_cast<size_t>(dim0)], result[static_cast<size_t>(dim1)]);
  return Emit(path, "aten.transpose.int", {{"self", x}, {"dim0", dim0}, {"dim1", dim1}}, std::move(result));
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
  return Emit(path, "aten.slice.Tensor", {{"self", x}, {"dim", int64_t{0}}, {"start", int64_t{0}}, {"end", count}},
              std::move(result));
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

ValueId GraphBuilder::Relu(std::string_view path, ValueId x) { return Elementwise(path, "aten.relu.default", x); }

ValueId GraphBuilder::Gelu(std::string_view path, ValueId x) { return Elementwise(path, "aten.gelu.default", x); }

ValueId GraphBuilder::GeluTanh(std::string_view path, ValueId x) {
  if (!Require(true, path, "")) {
    return x;
  }
  return Emit(path, "aten.gelu.default", {{"self", x}, {"approximate", std::string("tanh")}}, shape(x));
}

ValueId GraphBuilder::Tanh(std::string_view path, ValueId x) { return Elementwise(path, "aten.tanh.default", x); }

ValueId GraphBuilder::Detach(std::string_view path, ValueId x) { return Elementwise(path, "aten.detach.default", x); }

ValueId GraphBuilder::OnesLike(std::string_view path, ValueId x) {
  return Elementwise(path, "aten.ones_like.default", x);
}

ValueId GraphBuilder::ZerosLike(std::string_view path, ValueId x) {
  return Elementwise(path, "aten.zeros_like.default", x);
}

ValueId GraphBuilder::Flatten(std::string_view path, ValueId x) {
  if (!Require(status_.ok() && shape(x).size() >= 2, path, "flattening needs (B, ...)")) {
    return x;
  }
  int64_t features = 1;
  for (size_t i = 1; i < shape(x).size(); ++i) {
    features *= shape(x)[i].factor();
  }
  return Emit(path, "aten.flatten.using_ints", {{"self", x}, {"start_dim", int64_t{1}}, {"end_dim", int64_t{-1}}},
              {shape(x)[0], features});
}

ValueId GraphBuilder::LayerNorm(std::string_view path, ValueId x, double epsilon) {
  if (!Require(status_.ok() && shape(x).size() >= 2, path, "a layer norm needs (B, ..., features)")) {
    return x;
  }
  const int64_t features = shape(x).back().factor();
  const Operand weight = LayerParameter(path, "weight", {features}, Initializer::Constant(1));
  const Operand bias = LayerParameter(path, "bias", {features}, Initializer::Constant(0));
  return Emit(path, "aten.layer_norm.default",
              {{"input", x},
               {"normalized_shape", std::vector<int64_t>{features}},
               {"weight", weight},
               {"bias", bias},
               {"eps", epsilon}},
              shape(x));
}

ValueId GraphBuilder::BatchNorm2d(std::string_view path, ValueId x, double momentum, double epsilon) {
  if (!Require(status_.ok() && shape(x).size() == 4, path, "a batch norm needs (B, C, H, W)")) {
    return x;
  }
  const Dim channels = shape(x)[1];
  const Operand weight = LayerParameter(path, "weight", {channels}, Initializer::Constant(1));
  const Operand bias = LayerParameter(path, "bias", {channels}, Initializer::Constant(0));
  const Operand mean = Buffer(path, "running_mean", {channels}, 0);
  const Operand variance = Buffer(path, "running_var", {channels}, 1);
  return Emit(path, "aten.batch_norm.default",
              {{"input", x},
               {"weight", weight},
               {"bias", bias},
               {"running_mean", mean},
               {"running_var", variance},
               {"training", true},
               {"momentum", momentum},
               {"eps", epsilon},
               {"cudnn_enabled", true}},
              shape(x));
}

ValueId GraphBuilder::Dropout(std::string_view path, ValueId x, double probability) {
  if (!Require(probability >= 0 && probability < 1, path,
               absl::StrCat("dropout of ", probability, " is not in [0, 1)"))) {
    return x;
  }
  return Emit(path, "aten.dropout.default", {{"input", x}, {"p", probability}, {"train", true}}, shape(x));
}

ValueId GraphBuilder::Softmax(std::string_view path, ValueId x, int64_t dim) {
  if (!Require(true, path, "")) {
    return x;
  }
  return Emit(path, "aten.softmax.int", {{"self", x}, {"dim", dim}}, shape(x));
}

ValueId GraphBuilder::Add(std::string_view path, ValueId x, ValueId y) { return Binary(path, "aten.add.Tensor", x, y); }

ValueId GraphBuilder::Mul(std::string_view path, ValueId x, ValueId y) { return Binary(path, "aten.mul.Tensor", x, y); }

ValueId GraphBuilder::CrossEntropy(std::string_view path, ValueId logits, ValueId labels) {
  if (!Require(status_.ok() && shape(logits).size() == 2 && shape(labels).size() == 1, path,
               "cross entropy needs logits (B, classes) and labels (B)")) {
    return logits;
  }
  return Emit(path, "aten.cross_entropy_loss.default", {{"self", logits}, {"target", labels}}, {});
}

ValueId GraphBuilder::BinaryCrossEntropy(std::string_view path, ValueId logits, ValueId targets) {
  if (!Require(status_.ok() && shape(logits) == shape(targets), path,
               "binary cross entropy needs logits and targets of one shape")) {
    return logits;
  }
  return Emit(path, "aten.binary_cross_entropy_with_logits.default", {{"self", logits}, {"target", targets}}, {});
}

absl::StatusOr<Graph> GraphBuilder::Build() && {
  AMPD_RETURN_IF_ERROR(status_);
  AMPD_RETURN_IF_ERROR(graph_.Check());
  return std::move(graph_);
}

}  // namespace ampd::graph
