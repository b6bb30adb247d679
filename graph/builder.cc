#include "graph/builder.h"

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
  if (!Require(status_.ok() && shape(x) == shape(y), path, "adds or multiplies tensors of different shapes")) {
    return x;
  }
  return Emit(path, op, {{"self", x}, {"other", y}}, shape(x));
}

Operand GraphBuilder::Parameter(std::string_view path, std::string_view name, Shape shape, Initializer initializer) {
  return graph_.AddParameter(Join(path, name), {Dtype::kFloat32, std::move(shape)}, initializer);
}

Operand GraphBuilder::Buffer(std::string_view path, std::string_view name, Shape shape, double value) {
  return graph_.AddBuffer(Join(path, name), {Dtype::kFloat32, std::move(shape)}, Initializer::Constant(value));
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
      Parameter(path, "weight", {o.out_channels, in_channels / o.groups, o.kernel_size, o.kernel_size},
                Initializer::KaimingUniform(fan_in));
  const Operand bias = o.bias ? Parameter(path, "bias", {o.out_channels}, Initializer::Bias(fan_in)) : Operand();
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

ValueId GraphBuilder::MaxPool2d(std::string_view path, ValueId x, int64_t kernel_size) {
  if (!Require(kernel_size > 0, path, "pooling needs a positive kernel size") ||
      !Require(shape(x).size() == 4, path, "pooling needs an input of shape (B, C, H, W)")) {
    return x;
  }
  const Shape& in = shape(x);
  if (!Require(in[2].factor() >= kernel_size && in[3].factor() >= kernel_size, path,
               absl::StrCat("an image of ", in[2].factor(), " x ", in[3].factor(),
                            " pixels is too small for pooling by ", kernel_size))) {
    return x;
  }
  const std::vector<int64_t> kernel = {kernel_size, kernel_size};
  return Emit(path, "aten.max_pool2d.default", {{"self", x}, {"kernel_size", kernel}, {"stride", kernel}},
              {in[0], in[1], in[2].factor() / kernel_size, in[3].factor() / kernel_size});
}

ValueId GraphBuilder::Linear(std::string_view path, ValueId x, int64_t out_features, bool bias) {
  if (!Require(out_features > 0, path, "a linear layer needs at least one output") ||
      !Require(shape(x).size() >= 2 && !shape(x).back().is_batch(), path, "a linear layer needs (B, ..., features)")) {
    return x;
  }
  const int64_t in_features = shape(x).back().factor();
  const Operand weight =
      Parameter(path, "weight", {out_features, in_features}, Initializer::KaimingUniform(in_features));
  const Operand offset = bias ? Parameter(path, "bias", {out_features}, Initializer::Bias(in_features)) : Operand();
  Shape result = shape(x);
  result.back() = out_features;
  return Emit(path, "aten.linear.default", {{"input", x}, {"weight", weight}, {"bias", offset}}, std::move(result));
}

ValueId GraphBuilder::Relu(std::string_view path, ValueId x) { return Elementwise(path, "aten.relu.default", x); }

ValueId GraphBuilder::Gelu(std::string_view path, ValueId x) { return Elementwise(path, "aten.gelu.default", x); }

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
  const Operand weight = Parameter(path, "weight", {features}, Initializer::Constant(1));
  const Operand bias = Parameter(path, "bias", {features}, Initializer::Constant(0));
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
  const Operand weight = Parameter(path, "weight", {channels}, Initializer::Constant(1));
  const Operand bias = Parameter(path, "bias", {channels}, Initializer::Constant(0));
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

absl::StatusOr<Graph> GraphBuilder::Build() && {
  AMPD_RETURN_IF_ERROR(status_);
  AMPD_RETURN_IF_ERROR(graph_.Check());
  return std::move(graph_);
}

}  // namespace ampd::graph
