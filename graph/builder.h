#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ampd::graph {

// As torch.nn.Conv2d with square kernels.
struct Conv2dOptions {
  int64_t out_channels = 0;
  int64_t kernel_size = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t groups = 1;
  bool bias = true;
  std::optional<Initializer> weight = {};  // instead of the module's own, and with it a bias of zeros
};

// As torch.nn.MaxPool2d with square windows.
struct MaxPool2dOptions {
  int64_t kernel_size = 1;
  int64_t stride = 0;  // 0: the window's size
  int64_t padding = 0;
};

// torch.nn.LSTM or torch.nn.GRU.
enum class RecurrentCell { kLstm, kGru };

// Writes a graph as one would write a torch.nn.Module: each call is a layer, adds its parameters under "<path>.weight"
// and so on, initialised as the PyTorch module of the same name, and infers the shape of its result. A second call with
// the path of an earlier one is the same module again, with the same parameters and buffers.
//
//   GraphBuilder b("tiny");
//   ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 1, 8, 8}});
//   x = b.Relu("1", b.Conv2d("0", x, {.out_channels = 4, .kernel_size = 3, .padding = 1}));
//   b.Output("logits", b.Linear("3", b.Flatten("2", x), 10));
//   AMPD_ASSIGN_OR_RETURN(Graph graph, std::move(b).Build());
//
// A size that does not work is remembered and returned by Build(); the calls after it do nothing. Letters: B batch,
// C channels, H height, W width. Thread-compatible.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string_view name) : graph_(std::string(name)) {}

  ValueId Input(std::string_view name, TensorType type);
  void Output(std::string_view name, ValueId value);
  // A trained tensor that several layers share, or that a layer below does not make itself; the one there is when the
  // name is known.
  ValueId Parameter(std::string_view name, Shape shape, Initializer initializer);

  // (B, C, H, W) -> (B, out_channels, H', W')
  ValueId Conv2d(std::string_view path, ValueId x, const Conv2dOptions& options);
  // (B, C, H, W) -> (B, out_channels, H', W'), torch.nn.ConvTranspose2d: (H - 1) stride - 2 padding + kernel_size high.
  // REQUIRES of the options: one group.
  ValueId ConvTranspose2d(std::string_view path, ValueId x, const Conv2dOptions& options);
  // (B, C, H, W) -> (B, C, H', W'); incomplete windows are dropped.
  ValueId MaxPool2d(std::string_view path, ValueId x, const MaxPool2dOptions& options);
  // (B, C, H, W) -> (B, C, 1, 1), torch.nn.AdaptiveAvgPool2d(1)
  ValueId GlobalAvgPool2d(std::string_view path, ValueId x);
  // (..., in) -> (..., out_features)
  ValueId Linear(std::string_view path, ValueId x, int64_t out_features, bool bias = true);
  // The same with the weight initialised as given, and a bias of zeros.
  ValueId Linear(std::string_view path, ValueId x, int64_t out_features, Initializer weight);
  // As Linear, but with the weight (in, out_features), initialised as given, and a bias of zeros: transformers' Conv1D.
  ValueId Conv1d(std::string_view path, ValueId x, int64_t out_features, Initializer weight);
  // (..., in), weight (out, in) -> (..., out), without bias: for a weight that is tied to another layer's.
  ValueId TiedLinear(std::string_view path, ValueId x, ValueId weight);
  // int64 (...), table (N, C) -> (..., C): the rows of the table. The row at `padding_index`, if one is given, has no
  // gradient.
  ValueId Embedding(std::string_view path, ValueId indices, ValueId table, std::optional<int64_t> padding_index = {});
  // Attention over heads, (B, heads, T, D) each -> (B, heads, T, D). The result lies in memory in the query's order, so
  // that heads which were cut out of (B, T, C) by View and Transpose(1, 2) are joined again without a copy. Without
  // dropout, and best without a mask, so that LibTorch takes its flash kernel on every device. `mask`: bool, repeated
  // to (B, heads, T, T), true where a query sees a key.
  ValueId Attention(std::string_view path, ValueId query, ValueId key, ValueId value, bool is_causal,
                    std::optional<ValueId> mask = {});
  ValueId Relu(std::string_view path, ValueId x);
  // Negative numbers times `slope`.
  ValueId LeakyRelu(std::string_view path, ValueId x, double slope);
  // Exact (erf) form.
  ValueId Gelu(std::string_view path, ValueId x);
  // Its approximation by tanh.
  ValueId GeluTanh(std::string_view path, ValueId x);
  ValueId Sigmoid(std::string_view path, ValueId x);
  ValueId Silu(std::string_view path, ValueId x);
  ValueId Tanh(std::string_view path, ValueId x);
  // x as a constant: no gradient goes back through it.
  ValueId Detach(std::string_view path, ValueId x);
  // Constants of x's shape and format.
  ValueId OnesLike(std::string_view path, ValueId x);
  ValueId ZerosLike(std::string_view path, ValueId x);
  // The same elements in another shape. REQUIRES: x lies in memory in the order of its dimensions.
  ValueId View(std::string_view path, ValueId x, Shape shape);
  ValueId Transpose(std::string_view path, ValueId x, int64_t dim0, int64_t dim1);
  // The first `count` of x's rows, a view; all of them: x itself.
  ValueId Rows(std::string_view path, ValueId x, int64_t count);
  // x without dimension `dim`, of which it is entry `index`; a view.
  ValueId Select(std::string_view path, ValueId x, int64_t dim, int64_t index);
  // (..., C) -> `parts` times (..., C / parts), views of x.
  std::vector<ValueId> Split(std::string_view path, ValueId x, int64_t parts);
  // With a dimension of size 1 inserted, or left out, at `dim`; views of x.
  ValueId Unsqueeze(std::string_view path, ValueId x, int64_t dim);
  ValueId Squeeze(std::string_view path, ValueId x, int64_t dim);
  // (B, ...) -> (B, product)
  ValueId Flatten(std::string_view path, ValueId x);
  // Normalises over the last dimension.
  ValueId LayerNorm(std::string_view path, ValueId x, double epsilon = 1e-5);
  // (B, C, ...), training mode: writes the buffers "<path>.running_mean" and "<path>.running_var", which
  // "<path>.num_batches_tracked" counts.
  ValueId BatchNorm2d(std::string_view path, ValueId x, double momentum = 0.1, double epsilon = 1e-5,
                      Initializer weight = Initializer::Constant(1));
  ValueId Dropout(std::string_view path, ValueId x, double probability);
  // (B, ...): zeroes whole samples and multiplies the others by 1 / (1 - probability), as torchvision's
  // StochasticDepth(probability, "row").
  ValueId StochasticDepth(std::string_view path, ValueId x, double probability);
  // Of rows of several lengths, `mask` (B, T), bool, true at a row's own positions, which come first: its own positions
  // from the last to the first, then zeros; int64 (B, T).
  ValueId ReversedPositions(std::string_view path, ValueId mask);
  // (B, T, C), int64 (B, S) -> (B, S, C): of each row what it has at those positions.
  ValueId TakePositions(std::string_view path, ValueId x, ValueId positions);
  // (B, T, C) -> zeros (1, B, hidden_size) of x's format: the state before the first position.
  ValueId RecurrentStart(std::string_view path, ValueId x, int64_t hidden_size);
  // One direction of one layer, (B, T, C), state (1, B, H) -> (B, T, H); of an LSTM both states begin with `start`. Its
  // parameters are "<path>.weight_ih_<suffix>" and so on, the suffix "l0" or "l0_reverse".
  ValueId Recurrent(std::string_view path, ValueId x, ValueId start, RecurrentCell cell, std::string_view suffix);
  // One behind the other along `dim`; in all others they are of one size. REQUIRES: there is one.
  ValueId Concat(std::string_view path, const std::vector<ValueId>& parts, int64_t dim);
  ValueId Softmax(std::string_view path, ValueId x, int64_t dim);
  // The shape of y must be that of x, or the end of it, and y is repeated where it has a 1 instead.
  ValueId Add(std::string_view path, ValueId x, ValueId y);
  ValueId Mul(std::string_view path, ValueId x, ValueId y);
  // (B, classes), int64 (B) -> scalar, the mean over the batch.
  ValueId CrossEntropy(std::string_view path, ValueId logits, ValueId labels);

  // Logits and targets in [0, 1] of one shape -> scalar, the mean over all elements; the sigmoid is inside.
  ValueId BinaryCrossEntropy(std::string_view path, ValueId logits, ValueId targets);

  // The checked graph, or INVALID_ARGUMENT (reason INVALID_MODEL) naming the layer whose sizes do not work.
  absl::StatusOr<Graph> Build() &&;

 private:
  const Shape& shape(ValueId x) const { return graph_.type(x).shape; }
  // Remembers the first failure; returns whether `ok` and everything before it held.
  bool Require(bool ok, std::string_view path, std::string_view what);
  ValueId Emit(std::string_view path, std::string_view op, std::vector<Argument> arguments, Shape shape,
               Dtype dtype = Dtype::kFloat32);
  // Emits what shows x in another shape.
  ValueId EmitView(std::string_view path, std::string_view op, ValueId x, std::vector<Argument> arguments, Shape shape);
  ValueId Elementwise(std::string_view path, std::string_view op, ValueId x);
  ValueId Binary(std::string_view path, std::string_view op, ValueId x, ValueId y);
  ValueId LinearOf(std::string_view path, ValueId x, int64_t out_features, const std::optional<Initializer>& weight,
                   bool bias);
  Operand LayerParameter(std::string_view path, std::string_view name, Shape shape, Initializer initializer);
  Operand Buffer(std::string_view path, std::string_view name, Shape shape, double value);
  // The state of an earlier call of the same module, whose shape must be this one.
  std::optional<ValueId> Again(std::string_view name, const Shape& shape);

  Graph graph_;
  std::map<std::string, ValueId, std::less<>> states_;  // parameters and buffers by name
  absl::Status status_;
};

}  // namespace ampd::graph
