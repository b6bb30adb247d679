#include "graph/builder/builder.h"

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

// Returns the short name of an op, from which the names of its results are made: "conv2d" for "aten.conv2d.default".
std::string_view ShortName(std::string_view op) {
  op.remove_prefix(op.find('.') + 1);
  return op.substr(0, op.find('.'));
}

// Whether a tensor of shape `small` can be broadcast to `shape`.
bool IsBroadcastTo(const Shape& small, const Shape& shape) {
  return shape.size() >= small.size() &&
         std::equal(small.rbegin(), small.rend(), shape.rbegin(),
                    [](const Dim& one, const Dim& whole) { return one == whole || one == Dim(1); });
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

ValueId GraphBuilder::Emit(std::string_view path, std::string_view op, std::vector<Argument> arguments, Shape shape,
                           Dtype dtype) {
  return graph_.AddNode(
      {.op = std::string(op), .arguments = std::move(arguments), .outputs = {}, .module_path = std::string(path)},
      ShortName(op), {dtype, std::move(shape)});
}

ValueId GraphBuilder::Elementwise(std::string_view path, std::string_view op, ValueId x) {
  if (!Require(true, path, "")) {
    return x;
  }
  return Emit(path, op, {{"self", x}}, shape(x));
}

ValueId GraphBuilder::Binary(std::string_view path, std::string_view op, ValueId x, ValueId y) {
  if (!Require(status_.ok() && IsBroadcastTo(shape(y), shape(x)), path,
               "adds or multiplies tensors of different shapes")) {
    return x;
  }
  return Emit(path, op, {{"self", x}, {"other", y}}, shape(x));
}

std::optional<ValueId> GraphBuilder::Again(std::string_view name, const Shape& shape) {
  const auto known = states_.find(name);
  if (known == states_.end()) {
    return std::nullopt;
  }
  Require(this->shape(known->second) == shape, name, "is there already, with another shape");
  return known->second;
}

ValueId GraphBuilder::Parameter(std::string_view name, Shape shape, Initializer initializer) {
  if (const auto known = Again(name, shape); known.has_value()) {
    return *known;
  }
  const ValueId parameter = graph_.AddParameter(name, {Dtype::kFloat32, std::move(shape)}, initializer);
  states_.emplace(name, parameter);
  return parameter;
}

Operand GraphBuilder::LayerParameter(std::string_view path, std::string_view name, Shape shape,
                                     Initializer initializer) {
  return Parameter(Join(path, name), std::move(shape), initializer);
}

Operand GraphBuilder::Buffer(std::string_view path, std::string_view name, Shape shape, double value) {
  const std::string full = Join(path, name);
  if (const auto known = Again(full, shape); known.has_value()) {
    return *known;
  }
  const ValueId buffer = graph_.AddBuffer(full, {Dtype::kFloat32, std::move(shape)}, Initializer::Constant(value));
  states_.emplace(full, buffer);
  return buffer;
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
  const Initializer offset = o.weight.has_value() ? Initializer::Constant(0) : Initializer::Bias(fan_in);
  const Operand bias = o.bias ? LayerParameter(path, "bias", {o.out_channels}, offset) : Operand();
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

ValueId GraphBuilder::ConvTranspose2d(std::string_view path, ValueId x, const Conv2dOptions& options) {
  const Conv2dOptions& o = options;
  if (!Require(o.out_channels > 0 && o.kernel_size > 0 && o.stride > 0 && o.padding >= 0 && o.groups == 1, path,
               "a transposed convolution needs positive channels, kernel size and stride, and one group") ||
      !Require(shape(x).size() == 4, path, "a transposed convolution needs an input of shape (B, C, H, W)")) {
    return x;
  }
  const int64_t in_channels = shape(x)[1].factor();
  const int64_t height = (shape(x)[2].factor() - 1) * o.stride - 2 * o.padding + o.kernel_size;
  const int64_t width = (shape(x)[3].factor() - 1) * o.stride - 2 * o.padding + o.kernel_size;
  if (!Require(height > 0 && width > 0, path, "the padding takes all of the image")) {
    return x;
  }
  // PyTorch computes fan_in from the second dimension of the weight, also for transposed convolutions.
  const int64_t fan_in = o.out_channels * o.kernel_size * o.kernel_size;
  const Operand weight = LayerParameter(path, "weight", {in_channels, o.out_channels, o.kernel_size, o.kernel_size},
                                        o.weight.value_or(Initializer::KaimingUniform(fan_in)));
  const Initializer offset = o.weight.has_value() ? Initializer::Constant(0) : Initializer::Bias(fan_in);
  const Operand bias = o.bias ? LayerParameter(path, "bias", {o.out_channels}, offset) : Operand();
  return Emit(path, "aten.conv_transpose2d.input",
              {{"input", x},
               {"weight", weight},
               {"bias", bias},
               {"stride", std::vector<int64_t>{o.stride, o.stride}},
               {"padding", std::vector<int64_t>{o.padding, o.padding}}},
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
  return LinearOf(path, x, out_features, /*weight=*/std::nullopt, bias);
}

ValueId GraphBuilder::Linear(std::string_view path, ValueId x, int64_t out_features, Initializer weight) {
  return LinearOf(path, x, out_features, weight, /*bias=*/true);
}

ValueId GraphBuilder::LinearOf(std::string_view path, ValueId x, int64_t out_features,
                               const std::optional<Initializer>& weight, bool bias) {
  if (!Require(out_features > 0, path, "a linear layer needs at least one output") ||
      !Require(shape(x).size() >= 2 && !shape(x).back().is_batch(), path, "a linear layer needs (B, ..., features)")) {
    return x;
  }
  const int64_t in_features = shape(x).back().factor();
  const Operand matrix = LayerParameter(path, "weight", {out_features, in_features},
                                        weight.value_or(Initializer::KaimingUniform(in_features)));
  const Initializer start = weight.has_value() ? Initializer::Constant(0) : Initializer::Bias(in_features);
  const Operand offset = bias ? LayerParameter(path, "bias", {out_features}, start) : Operand();
  Shape result = shape(x);
  result.back() = out_features;
  return Emit(path, "aten.linear.default", {{"input", x}, {"weight", matrix}, {"bias", offset}}, std::move(result));
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

ValueId GraphBuilder::Attention(std::string_view path, ValueId query, ValueId key, ValueId value, bool is_causal,
                                std::optional<ValueId> mask) {
  if (!Require(status_.ok() && shape(query).size() == 4 && shape(query) == shape(key) && shape(key) == shape(value),
               path, "attention needs query, key and value of one shape (B, heads, T, D)")) {
    return query;
  }
  std::vector<Argument> arguments = {{"query", query}, {"key", key}, {"value", value}, {"is_causal", is_causal}};
  if (mask.has_value()) {
    const Shape scores = {shape(query)[0], shape(query)[1], shape(query)[2], shape(key)[2]};
    if (!Require(!is_causal && graph_.type(*mask).dtype == Dtype::kBool && IsBroadcastTo(shape(*mask), scores), path,
                 "a mask of attention that is not causal is bool and repeated to (B, heads, T, T)")) {
      return query;
    }
    arguments.push_back({"attn_mask", *mask});
  }
  return Emit(path, "aten.scaled_dot_product_attention.default", std::move(arguments), shape(query));
}

ValueId GraphBuilder::Relu(std::string_view path, ValueId x) { return Elementwise(path, "aten.relu.default", x); }

ValueId GraphBuilder::LeakyRelu(std::string_view path, ValueId x, double slope) {
  if (!Require(true, path, "")) {
    return x;
  }
  return Emit(path, "aten.leaky_relu.default", {{"self", x}, {"negative_slope", slope}}, shape(x));
}

ValueId GraphBuilder::Gelu(std::string_view path, ValueId x) { return Elementwise(path, "aten.gelu.default", x); }

ValueId GraphBuilder::GeluTanh(std::string_view path, ValueId x) {
  if (!Require(true, path, "")) {
    return x;
  }
  return Emit(path, "aten.gelu.default", {{"self", x}, {"approximate", std::string("tanh")}}, shape(x));
}

ValueId GraphBuilder::Sigmoid(std::string_view path, ValueId x) { return Elementwise(path, "aten.sigmoid.default", x); }

ValueId GraphBuilder::Silu(std::string_view path, ValueId x) { return Elementwise(path, "aten.silu.default", x); }

ValueId GraphBuilder::Tanh(std::string_view path, ValueId x) { return Elementwise(path, "aten.tanh.default", x); }

ValueId GraphBuilder::Detach(std::string_view path, ValueId x) { return Elementwise(path, "aten.detach.default", x); }

ValueId GraphBuilder::OnesLike(std::string_view path, ValueId x) {
  return Elementwise(path, "aten.ones_like.default", x);
}

ValueId GraphBuilder::ZerosLike(std::string_view path, ValueId x) {
  return Elementwise(path, "aten.zeros_like.default", x);
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

ValueId GraphBuilder::BatchNorm2d(std::string_view path, ValueId x, double momentum, double epsilon,
                                  Initializer weight_start) {
  if (!Require(status_.ok() && shape(x).size() == 4, path, "a batch norm needs (B, C, H, W)")) {
    return x;
  }
  const Dim channels = shape(x)[1];
  const Operand weight = LayerParameter(path, "weight", {channels}, weight_start);
  const Operand bias = LayerParameter(path, "bias", {channels}, Initializer::Constant(0));
  const Operand mean = Buffer(path, "running_mean", {channels}, 0);
  const Operand variance = Buffer(path, "running_var", {channels}, 1);
  graph_.AddBatchCounter(Join(path, "num_batches_tracked"), std::get<ValueId>(mean));
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

ValueId GraphBuilder::StochasticDepth(std::string_view path, ValueId x, double probability) {
  if (!Require(probability >= 0 && probability < 1, path,
               absl::StrCat("stochastic depth of ", probability, " is not in [0, 1)"))) {
    return x;
  }
  // feature_dropout zeroes whole channels. With an inserted second dimension of size 1, a sample is one channel.
  x = Unsqueeze(path, x, 1);
  x = Emit(path, "aten.feature_dropout.default", {{"input", x}, {"p", probability}, {"train", true}}, shape(x));
  return Squeeze(path, x, 1);
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
