// The builder's layers for sequences of tokens, including padded sequences of different lengths.
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/builder/builder.h"

namespace ampd::graph {

ValueId GraphBuilder::Embedding(std::string_view path, ValueId indices, ValueId table,
                                std::optional<int64_t> padding_index) {
  if (!Require(status_.ok() && graph_.type(indices).dtype == Dtype::kInt64 && shape(table).size() == 2, path,
               "an embedding needs int64 indices and a table (N, C)")) {
    return indices;
  }
  Shape result = shape(indices);
  result.push_back(shape(table)[1]);
  std::vector<Argument> arguments = {{"weight", table}, {"indices", indices}};
  if (padding_index.has_value()) {
    arguments.push_back({"padding_idx", *padding_index});
  }
  return Emit(path, "aten.embedding.default", std::move(arguments), std::move(result));
}

ValueId GraphBuilder::ReversedPositions(std::string_view path, ValueId mask) {
  if (!Require(status_.ok() && graph_.type(mask).dtype == Dtype::kBool && shape(mask).size() == 2, path,
               "positions are reversed by a mask (B, T), bool")) {
    return mask;
  }
  const int64_t length = shape(mask)[1].factor();
  const ValueId counts =
      Emit(path, "aten.cumsum.default", {{"self", mask}, {"dim", int64_t{1}}}, shape(mask), Dtype::kInt64);
  const ValueId lengths = Unsqueeze(path, Select(path, counts, 1, length - 1), 1);
  return Emit(path, "aten.sub.Tensor", {{"self", lengths}, {"other", counts}}, shape(mask), Dtype::kInt64);
}

ValueId GraphBuilder::TakePositions(std::string_view path, ValueId x, ValueId positions) {
  if (!Require(status_.ok() && shape(x).size() == 3 && graph_.type(positions).dtype == Dtype::kInt64 &&
                   shape(positions).size() == 2 && shape(positions)[0] == shape(x)[0],
               path, "positions (B, S), int64, are taken of (B, T, C)")) {
    return x;
  }
  const Shape result = {shape(x)[0], shape(positions)[1], shape(x)[2]};
  const std::vector<int64_t> sizes = {-1, -1, shape(x)[2].factor()};
  const ValueId index = EmitView(path, "aten.expand.default", Unsqueeze(path, positions, 2), {{"size", sizes}}, result);
  return Emit(path, "aten.gather.default", {{"self", x}, {"dim", int64_t{1}}, {"index", index}}, result,
              graph_.type(x).dtype);
}

ValueId GraphBuilder::RecurrentStart(std::string_view path, ValueId x, int64_t hidden_size) {
  if (!Require(status_.ok() && shape(x).size() == 3 && hidden_size > 0, path,
               "a recurrent layer needs (B, T, C) and a positive number of hidden features")) {
    return x;
  }
  const Dim batch = shape(x)[0];
  ValueId one = Select(path, Select(path, x, 1, 0), 1, 0);  // (B)
  one = Unsqueeze(path, Unsqueeze(path, one, 0), 2);
  const std::vector<int64_t> sizes = {1, -1, hidden_size};
  return ZerosLike(path, EmitView(path, "aten.expand.default", one, {{"size", sizes}}, {1, batch, hidden_size}));
}

ValueId GraphBuilder::Recurrent(std::string_view path, ValueId x, ValueId start, RecurrentCell cell,
                                std::string_view suffix) {
  if (!Require(status_.ok() && shape(x).size() == 3 && shape(start).size() == 3, path,
               "a recurrent layer needs (B, T, C) and a state (1, B, hidden)")) {
    return x;
  }
  const bool is_lstm = cell == RecurrentCell::kLstm;
  const int64_t hidden = shape(start)[2].factor();
  const int64_t rows = (is_lstm ? 4 : 3) * hidden;
  const Initializer uniform = Initializer::Bias(hidden);
  const auto parameter = [&](const char* name, Shape size) {
    return std::optional(
        Parameter(absl::StrCat(std::string(path), ".", name, "_", std::string(suffix)), std::move(size), uniform));
  };
  const std::vector<std::optional<ValueId>> parameters = {parameter("weight_ih", {rows, shape(x)[2]}),
                                                          parameter("weight_hh", {rows, hidden}),
                                                          parameter("bias_ih", {rows}), parameter("bias_hh", {rows})};
  using States = std::vector<std::optional<ValueId>>;
  const Operand before = is_lstm ? Operand(States{start, start}) : Operand(start);
  Node node{.op = is_lstm ? "aten.lstm.input" : "aten.gru.input",
            .arguments = {{"input", x},
                          {"hx", before},
                          {"params", parameters},
                          {"has_biases", true},
                          {"num_layers", int64_t{1}},
                          {"dropout", 0.0},
                          {"train", true},
                          {"bidirectional", false},
                          {"batch_first", true}},
            .outputs = {},
            .module_path = std::string(path)};
  const Dim batch = shape(x)[0];
  const std::string name = is_lstm ? "lstm" : "gru";
  const ValueId result = graph_.AddValue(name, {Dtype::kFloat32, {batch, shape(x)[1], hidden}});
  node.outputs = {result};
  for (int i = 0; i < (is_lstm ? 2 : 1); ++i) {
    node.outputs.push_back(graph_.AddValue(absl::StrCat(name, "_state"), {Dtype::kFloat32, {1, batch, hidden}}));
  }
  graph_.AddNode(std::move(node));
  return result;
}

ValueId GraphBuilder::Concat(std::string_view path, const std::vector<ValueId>& parts, int64_t dim) {
  Shape result = shape(parts.front());
  const bool has_dim = status_.ok() && 0 <= dim && dim < static_cast<int64_t>(result.size());
  if (!Require(has_dim && !result[static_cast<size_t>(dim)].is_batch(), path, "there is no such dimension to join")) {
    return parts.front();
  }
  const auto index = static_cast<size_t>(dim);
  int64_t extent = 0;
  for (const ValueId part : parts) {
    Shape like = shape(part);
    const bool fits = like.size() == result.size() && !like[index].is_batch();
    extent += fits ? like[index].factor() : 0;
    if (fits) {
      like[index] = result[index];
    }
    if (!Require(fits && like == result, path, "what is joined is of one size in all other dimensions")) {
      return parts.front();
    }
  }
  result[index] = extent;
  const std::vector<std::optional<ValueId>> tensors(parts.begin(), parts.end());
  return Emit(path, "aten.cat.default", {{"tensors", tensors}, {"dim", dim}}, std::move(result),
              graph_.type(parts.front()).dtype);
}

}  // namespace ampd::graph
