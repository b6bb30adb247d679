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

// Options of torch.nn.Conv2d with square kernels.
struct Conv2dOptions {
  int64_t out_channels = 0;
  int64_t kernel_size = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t groups = 1;
  bool bias = true;
  std::optional<Initializer> weight = {};  // If set, initialises the weight; the bias is then zeros.
};

// Options of torch.nn.MaxPool2d with square windows.
struct MaxPool2dOptions {
  int64_t kernel_size = 1;
  int64_t stride = 0;  // 0: the same as kernel_size.
  int64_t padding = 0;
};

// The kind of a recurrent layer: torch.nn.LSTM or torch.nn.GRU.
enum class RecurrentCell { kLstm, kGru };

// Writes a graph in the style of a torch.nn.Module. Each call is a layer: it adds its parameters under "<path>.weight"
// and so on, initialised as in the PyTorch module of the same name, and infers the shape of its result. A second call
// with the same path uses the same parameters and buffers again.
//
//   GraphBuilder b("tiny");
//   ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 1, 8, 8}});
//   x = b.Relu("1", b.Conv2d("0", x, {.out_channels = 4, .kernel_size = 3, .padding = 1}));
//   b.Output("logits", b.Linear("3", b.Flatten("2", x), 10));
//   AMPD_ASSIGN_OR_RETURN(Graph graph, std::move(b).Build());
//
// If the sizes of a layer do not fit, the error is recorded, Build() returns it, and later calls do nothing. Letters: B
// batch, C channels, H height, W width. Thread-compatible.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string_view name) : graph_(std::string(name)) {}

  ValueId Input(std::string_view name, TensorType type);
  void Output(std::string_view name, ValueId value);
  // Adds a trained tensor that several layers share, or that no layer of this builder adds. If a parameter with this
  // name exists, returns that one.
  ValueId Parameter(std::string_view name, Shape shape, Initializer initializer);

  // (B, C, H, W) -> (B, out_channels, H', W')
  ValueId Conv2d(std::string_view path, ValueId x, const Conv2dOptions& options);
  // (B, C, H, W) -> (B, out_channels, H', W'), torch.nn.ConvTranspose2d; H' is (H - 1) * stride - 2 * padding +
  // kernel_size. REQUIRES: options.groups is 1.
  ValueId ConvTranspose2d(std::string_view path, ValueId x, const Conv2dOptions& options);
  // (B, C, H, W) -> (B, C, H', W'); incomplete windows are dropped.
  ValueId MaxPool2d(std::string_view path, ValueId x, const MaxPool2dOptions& options);
  // (B, C, H, W) -> (B, C, 1, 1), torch.nn.AdaptiveAvgPool2d(1)
  ValueId GlobalAvgPool2d(std::string_view path, ValueId x);
  // (..., in) -> (..., out_features)
  ValueId Linear(std::string_view path, ValueId x, int64_t out_features, bool bias = true);
  // Linear with a weight initialised as given, and a bias of zeros.
  ValueId Linear(std::string_view path, ValueId x, int64_t out_features, Initializer weight);
  // Linear with a weight (in, out_features), initialised as given, and a bias of zeros: transformers' Conv1D.
  ValueId Conv1d(std::string_view path, ValueId x, int64_t out_features, Initializer weight);
  // (..., in), weight (out, in) -> (..., out), without bias. For a weight that is shared with another layer.
  ValueId TiedLinear(std::string_view path, ValueId x, ValueId weight);
  // Indices int64 (...), table (N, C) -> (..., C): the rows of the table with these indices. The row at
  // `padding_index`, if given, gets no gradient.
  ValueId Embedding(std::string_view path, ValueId indices, ValueId table, std::optional<int64_t> padding_index = {});
  // Attention over heads, (B, heads, T, D) each -> (B, heads, T, D). The result has the memory layout of the query. So
  // if View and Transpose(1, 2) split (B, T, C) into heads, the inverse of these two joins the result without a copy.
  // There is no dropout. `mask`: bool, broadcast to (B, heads, T, T), true where a query sees a key. Without a mask,
  // LibTorch uses its flash kernel on every device; with a mask, it may use another kernel.
  ValueId Attention(std::string_view path, ValueId query, ValueId key, ValueId value, bool is_causal,
                    std::optional<ValueId> mask = {});
  ValueId Relu(std::string_view path, ValueId x);
  // Leaky ReLU: multiplies negative numbers by `slope`.
  ValueId LeakyRelu(std::string_view path, ValueId x, double slope);
  // GELU in its exact form, which uses the error function (erf).
  ValueId Gelu(std::string_view path, ValueId x);
  // GELU in the form that approximates it by tanh.
  ValueId GeluTanh(std::string_view path, ValueId x);
  ValueId Sigmoid(std::string_view path, ValueId x);
  ValueId Silu(std::string_view path, ValueId x);
  ValueId Tanh(std::string_view path, ValueId x);
  // Returns x as a constant: no gradient flows back through the result.
  ValueId Detach(std::string_view path, ValueId x);
  // A constant tensor of ones, or of zeros, with x's shape and dtype.
  ValueId OnesLike(std::string_view path, ValueId x);
  ValueId ZerosLike(std::string_view path, ValueId x);
  // Returns x with another shape. REQUIRES: x is contiguous.
  ValueId View(std::string_view path, ValueId x, Shape shape);
  ValueId Transpose(std::string_view path, ValueId x, int64_t dim0, int64_t dim1);
  // The first `count` rows of x, as a view. Returns x itself if x has no further rows.
  ValueId Rows(std::string_view path, ValueId x, int64_t count);
  // Entry `index` of x along `dim`, without that dimension; a view.
  ValueId Select(std::string_view path, ValueId x, int64_t dim, int64_t index);
  // (..., C) -> `parts` tensors (..., C / parts), views of x.
  std::vector<ValueId> Split(std::string_view path, ValueId x, int64_t parts);
  // Insert or remove a dimension of size 1 at `dim`; views of x.
  ValueId Unsqueeze(std::string_view path, ValueId x, int64_t dim);
  ValueId Squeeze(std::string_view path, ValueId x, int64_t dim);
  // (B, ...) -> (B, product of the other dimensions)
  ValueId Flatten(std::string_view path, ValueId x);
  // Normalises over the last dimension.
  ValueId LayerNorm(std::string_view path, ValueId x, double epsilon = 1e-5);
  // (B, C, ...), training mode: updates the buffers "<path>.running_mean" and "<path>.running_var";
  // "<path>.num_batches_tracked" counts the updates.
  ValueId BatchNorm2d(std::string_view path, ValueId x, double momentum = 0.1, double epsilon = 1e-5,
                      Initializer weight = Initializer::Constant(1));
  ValueId Dropout(std::string_view path, ValueId x, double probability);
  // (B, ...): zeroes whole samples and multiplies the others by 1 / (1 - probability), like torchvision's
  // StochasticDepth(probability, "row").
  ValueId StochasticDepth(std::string_view path, ValueId x, double probability);
  // For a batch of rows that have different lengths and are padded at the end: `mask` (B, T), bool, is false at the
  // padding. Returns int64 (B, T): for each row its positions before the padding, from the last to the first, then
  // zeros.
  ValueId ReversedPositions(std::string_view path, ValueId mask);
  // (B, T, C), int64 (B, S) -> (B, S, C): gathers the given positions of each row.
  ValueId TakePositions(std::string_view path, ValueId x, ValueId positions);
  // (B, T, C) -> zeros (1, B, hidden_size) of x's dtype: the state before the first position.
  ValueId RecurrentStart(std::string_view path, ValueId x, int64_t hidden_size);
  // One direction of one recurrent layer: x (B, T, C), start (1, B, H) -> (B, T, H). An LSTM uses `start` for both of
  // its states. The parameters are "<path>.weight_ih_<suffix>" and so on; the suffix is "l0" or "l0_reverse".
  ValueId Recurrent(std::string_view path, ValueId x, ValueId start, RecurrentCell cell, std::string_view suffix);
  // Concatenates along `dim`; all other dimensions must agree. REQUIRES: parts is not empty.
  ValueId Concat(std::string_view path, const std::vector<ValueId>& parts, int64_t dim);
  ValueId Softmax(std::string_view path, ValueId x, int64_t dim);
  // Add and Mul broadcast y to x: y has the shape of x, or that of the last dimensions of x. A dimension of y may have
  // size 1; y is then repeated along it.
  ValueId Add(std::string_view path, ValueId x, ValueId y);
  ValueId Mul(std::string_view path, ValueId x, ValueId y);
  // Logits (B, classes), labels int64 (B) -> scalar: the mean loss over the batch.
  ValueId CrossEntropy(std::string_view path, ValueId logits, ValueId labels);

  // Logits, and targets in [0, 1] of the same shape -> scalar: the mean loss over all elements. Applies the sigmoid
  // itself.
  ValueId BinaryCrossEntropy(std::string_view path, ValueId logits, ValueId targets);

  // Returns the checked graph, or INVALID_ARGUMENT (reason INVALID_MODEL) naming the layer whose sizes do not fit.
  absl::StatusOr<Graph> Build() &&;

 private:
  const Shape& shape(ValueId x) const { return graph_.type(x).shape; }
  // If `ok` is false, records the error `what`, unless an earlier error is recorded. Returns whether no error is
  // recorded.
  bool Require(bool ok, std::string_view path, std::string_view what);
  ValueId Emit(std::string_view path, std::string_view op, std::vector<Argument> arguments, Shape shape,
               Dtype dtype = Dtype::kFloat32);
  // Emits an op that returns a view of x with another shape.
  ValueId EmitView(std::string_view path, std::string_view op, ValueId x, std::vector<Argument> arguments, Shape shape);
  ValueId Elementwise(std::string_view path, std::string_view op, ValueId x);
  ValueId Binary(std::string_view path, std::string_view op, ValueId x, ValueId y);
  ValueId LinearOf(std::string_view path, ValueId x, int64_t out_features, const std::optional<Initializer>& weight,
                   bool bias);
  Operand LayerParameter(std::string_view path, std::string_view name, Shape shape, Initializer initializer);
  Operand Buffer(std::string_view path, std::string_view name, Shape shape, double value);
  // Returns the parameter or buffer of this name that an earlier call added; nothing if there is none. Records an error
  // if it has another shape than `shape`.
  std::optional<ValueId> Again(std::string_view name, const Shape& shape);

  Graph graph_;
  std::map<std::string, ValueId, std::less<>> states_;  // Parameters and buffers by name.
  absl::Status status_;
};

}  // namespace ampd::graph
