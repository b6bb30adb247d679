// Compares what the op table says about the tensors that an op saves for the backward pass with the tensors that
// LibTorch's autograd keeps alive.

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "graph/op_table.h"
#include "worker/executor/executor.h"

namespace ampd::executor {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::Graph;
using graph::Node;
using graph::Operand;
using graph::ValueId;
using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// An argument of an op: a tensor or a constant.
struct Given {
  std::string name;
  std::variant<at::Tensor, Operand> value;
};

struct OpCall {
  std::string op;
  std::vector<Given> arguments;  // Arguments with the same name form one list argument.
};

// Returns a random tensor that needs a gradient. It is not a leaf, because autograd keeps every leaf alive.
at::Tensor Trained(at::IntArrayRef sizes) { return at::rand(sizes).requires_grad_(true).add(0.01); }

at::Tensor Labels() { return at::zeros({3}, at::kLong); }

Operand Ints(std::vector<int64_t> list) { return list; }

// Returns a call of a recurrent op: one layer of five hidden features over two sequences of three positions.
OpCall Recurrent(const std::string& op, int num_states, int64_t num_gates) {
  constexpr int64_t kHidden = 5;
  OpCall call{op, {{"input", Trained({2, 3, 4})}}};
  for (int i = 0; i < num_states; ++i) {
    call.arguments.push_back({"hx", Trained({1, 2, kHidden})});
  }
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{num_gates * kHidden, 4},
                                            {num_gates * kHidden, kHidden},
                                            {num_gates * kHidden},
                                            {num_gates * kHidden}}) {
    call.arguments.push_back({"params", Trained(sizes)});
  }
  for (const auto& [name, value] : std::vector<std::pair<const char*, Operand>>{{"has_biases", true},
                                                                                {"num_layers", int64_t{1}},
                                                                                {"dropout", 0.0},
                                                                                {"train", true},
                                                                                {"bidirectional", false},
                                                                                {"batch_first", true}}) {
    call.arguments.push_back({name, value});
  }
  return call;
}

std::vector<OpCall> Calls() {
  const auto unary = [](std::string op) { return OpCall{std::move(op), {{"self", Trained({3, 4})}}}; };
  const auto binary = [](std::string op) {
    return OpCall{std::move(op), {{"self", Trained({3, 4})}, {"other", Trained({3, 4})}}};
  };
  const auto along = [](std::string op) {
    return OpCall{std::move(op), {{"self", Trained({3, 4})}, {"dim", Operand(int64_t{1})}}};
  };
  return {
      {"aten.adaptive_avg_pool2d.default", {{"self", Trained({2, 3, 4, 4})}, {"output_size", Ints({2, 2})}}},
      binary("aten.add.Tensor"),
      binary("aten.add_.Tensor"),
      {"aten.addmm.default", {{"self", Trained({5})}, {"mat1", Trained({3, 4})}, {"mat2", Trained({4, 5})}}},
      along("aten.argmax.default"),
      {"aten.avg_pool2d.default", {{"self", Trained({2, 3, 4, 4})}, {"kernel_size", Ints({2, 2})}}},
      {"aten.batch_norm.default",
       {{"input", Trained({4, 3, 2, 2})},
        {"weight", Trained({3})},
        {"bias", Trained({3})},
        {"running_mean", at::zeros({3})},
        {"running_var", at::ones({3})},
        {"training", Operand(true)},
        {"momentum", Operand(0.1)},
        {"eps", Operand(1e-5)},
        {"cudnn_enabled", Operand(false)}}},
      {"aten.binary_cross_entropy.default", {{"self", Trained({3}).sigmoid().add(0.0)}, {"target", at::rand({3})}}},
      {"aten.binary_cross_entropy_with_logits.default", {{"self", Trained({3})}, {"target", at::rand({3})}}},
      {"aten.bmm.default", {{"self", Trained({2, 3, 4})}, {"mat2", Trained({2, 4, 5})}}},
      {"aten.cat.default", {{"tensors", Trained({3, 4})}, {"tensors", Trained({3, 4})}}},
      {"aten.conv2d.default",
       {{"input", Trained({2, 3, 6, 6})}, {"weight", Trained({4, 3, 3, 3})}, {"bias", Trained({4})}}},
      {"aten.convolution.default",
       {{"input", Trained({2, 3, 6, 6})},
        {"weight", Trained({4, 3, 3, 3})},
        {"bias", Trained({4})},
        {"stride", Ints({1, 1})},
        {"padding", Ints({0, 0})},
        {"dilation", Ints({1, 1})},
        {"transposed", Operand(false)},
        {"output_padding", Ints({0, 0})},
        {"groups", Operand(int64_t{1})}}},
      {"aten.cross_entropy_loss.default", {{"self", Trained({3, 4})}, {"target", Labels()}}},
      unary("aten.detach.default"),
      {"aten.dropout.default", {{"input", Trained({3, 4})}, {"p", Operand(0.5)}, {"train", Operand(true)}}},
      {"aten.embedding.default", {{"weight", Trained({5, 4})}, {"indices", Labels()}}},
      binary("aten.eq.Tensor"),
      {"aten.feature_dropout.default", {{"input", Trained({3, 4, 2})}, {"p", Operand(0.5)}, {"train", Operand(true)}}},
      unary("aten.flatten.using_ints"),
      unary("aten.gelu.default"),
      {"aten.layer_norm.default",
       {{"input", Trained({3, 4})}, {"normalized_shape", Ints({4})}, {"weight", Trained({4})}, {"bias", Trained({4})}}},
      {"aten.linear.default", {{"input", Trained({3, 4})}, {"weight", Trained({5, 4})}, {"bias", Trained({5})}}},
      along("aten.log_softmax.int"),
      {"aten.matmul.default", {{"self", Trained({3, 4})}, {"other", Trained({4, 5})}}},
      {"aten.max_pool2d.default", {{"self", Trained({2, 3, 4, 4})}, {"kernel_size", Ints({2, 2})}}},
      unary("aten.mean.default"),
      {"aten.mean.dim", {{"self", Trained({3, 4})}, {"dim", Ints({1})}}},
      {"aten.mm.default", {{"self", Trained({3, 4})}, {"mat2", Trained({4, 5})}}},
      binary("aten.mul.Tensor"),
      {"aten.nll_loss_nd.default", {{"self", Trained({3, 4})}, {"target", Labels()}}},
      unary("aten.ones_like.default"),
      {"aten.permute.default", {{"self", Trained({3, 4})}, {"dims", Ints({1, 0})}}},
      unary("aten.relu.default"),
      unary("aten.relu_.default"),
      {"aten.reshape.default", {{"self", Trained({3, 4})}, {"shape", Ints({4, 3})}}},
      unary("aten.sigmoid.default"),
      unary("aten.silu.default"),
      along("aten.softmax.int"),
      {"aten.scaled_dot_product_attention.default",
       {{"query", Trained({1, 2, 3, 4})}, {"key", Trained({1, 2, 3, 4})}, {"value", Trained({1, 2, 3, 4})}}},
      {"aten.select.int", {{"self", Trained({3, 4})}, {"dim", Operand(int64_t{1})}, {"index", Operand(int64_t{0})}}},
      {"aten.slice.Tensor", {{"self", Trained({3, 4})}, {"end", Operand(int64_t{2})}}},
      {"aten.split.Tensor", {{"self", Trained({3, 4})}, {"split_size", Operand(int64_t{4})}}},
      {"aten.squeeze.dim", {{"self", Trained({3, 1})}, {"dim", Operand(int64_t{1})}}},
      {"aten.stack.default", {{"tensors", Trained({3, 4})}, {"tensors", Trained({3, 4})}}},
      binary("aten.sub.Tensor"),
      binary("aten.sub_.Tensor"),
      unary("aten.sum.default"),
      {"aten.sum.dim_IntList", {{"self", Trained({3, 4})}, {"dim", Ints({1})}}},
      unary("aten.tanh.default"),
      {"aten.to.dtype", {{"self", Trained({3, 4})}, {"dtype", Operand(Dtype::kBFloat16)}}},
      {"aten.transpose.int", {{"self", Trained({3, 4})}, {"dim0", Operand(int64_t{0})}, {"dim1", Operand(int64_t{1})}}},
      {"aten.unsqueeze.default", {{"self", Trained({3, 4})}, {"dim", Operand(int64_t{1})}}},
      {"aten.view.default", {{"self", Trained({3, 4})}, {"size", Ints({12})}}},
      unary("aten.zeros_like.default"),
      // Ops that occur only in imported models.
      unary("aten.clone.default"),
      unary("aten.contiguous.default"),
      along("aten.cumsum.default"),
      unary("aten.diagonal.default"),
      unary("aten.diff.default"),
      binary("aten.div.Tensor"),
      binary("aten.div_.Tensor"),
      {"aten.huber_loss.default", {{"self", Trained({3})}, {"target", at::rand({3})}}},
      {"aten.mse_loss.default", {{"self", Trained({3})}, {"target", at::rand({3})}}},
      {"aten.smooth_l1_loss.default", {{"self", Trained({3})}, {"target", at::rand({3})}}},
      {"aten.dropout_.default", {{"self", Trained({3, 4})}, {"p", Operand(0.5)}, {"train", Operand(true)}}},
      unary("aten.elu.default"),
      {"aten.expand.default", {{"self", Trained({3, 4})}, {"size", Ints({2, 3, 4})}}},
      {"aten.group_norm.default",
       {{"input", Trained({3, 4, 2})},
        {"num_groups", Operand(int64_t{2})},
        {"weight", Trained({4})},
        {"bias", Trained({4})}}},
      unary("aten.hardsigmoid.default"),
      unary("aten.hardswish.default"),
      unary("aten.hardswish_.default"),
      unary("aten.hardtanh.default"),
      unary("aten.hardtanh_.default"),
      binary("aten.le.Tensor"),
      unary("aten.leaky_relu.default"),
      unary("aten.leaky_relu_.default"),
      {"aten.masked_fill.Scalar",
       {{"self", Trained({3, 4})}, {"mask", at::ones({3, 4}, at::kBool)}, {"value", Operand(0.0)}}},
      {"aten.masked_fill_.Scalar",
       {{"self", Trained({3, 4})}, {"mask", at::ones({3, 4}, at::kBool)}, {"value", Operand(0.0)}}},
      binary("aten.mul_.Tensor"),
      {"aten.narrow.default",
       {{"self", Trained({3, 4})},
        {"dim", Operand(int64_t{1})},
        {"start", Operand(int64_t{0})},
        {"length", Operand(int64_t{2})}}},
      {"aten.ne.Scalar", {{"self", Trained({3, 4})}, {"other", Operand(int64_t{0})}}},
      unary("aten.neg.default"),
      {"aten.pow.Tensor_Scalar", {{"self", Trained({3, 4})}, {"exponent", Operand(3.0)}}},
      unary("aten.rsqrt.default"),
      unary("aten.silu_.default"),
      {"aten.unflatten.int", {{"self", Trained({3, 4})}, {"dim", Operand(int64_t{1})}, {"sizes", Ints({2, 2})}}},
      // Ops with which imported models make masks, positions and noise.
      unary("aten.abs.default"),
      {"aten.arange.default", {{"end", Operand(int64_t{3})}}},
      {"aten.arange.start", {{"start", Operand(int64_t{1})}, {"end", Operand(int64_t{3})}}},
      {"aten.bernoulli.p", {{"self", at::zeros({3, 4})}, {"p", Operand(0.5)}}},
      {"aten.bernoulli_.float", {{"self", at::zeros({3, 4})}, {"p", Operand(0.5)}}},
      {"aten.chunk.default", {{"self", Trained({3, 4})}, {"chunks", Operand(int64_t{1})}}},
      unary("aten.cos.default"),
      {"aten.empty.memory_format", {{"size", Ints({3, 4})}}},
      {"aten.eq.Scalar", {{"self", Trained({3, 4})}, {"other", Operand(int64_t{0})}}},
      {"aten.fill.Tensor", {{"self", Trained({3, 4})}, {"value", at::ones({})}}},
      {"aten.fill_.Tensor", {{"self", Trained({3, 4})}, {"value", at::ones({})}}},
      {"aten.full_like.default", {{"self", Trained({3, 4})}, {"fill_value", Operand(2.0)}}},
      {"aten.gt.Scalar", {{"self", Trained({3, 4})}, {"other", Operand(int64_t{0})}}},
      unary("aten.log.default"),
      {"aten.lt.Scalar", {{"self", Trained({3, 4})}, {"other", Operand(int64_t{0})}}},
      {"aten.index.Tensor", {{"self", Trained({3, 4})}, {"indices", Labels()}}},
      binary("aten.min.other"),
      {"aten.new_zeros.default", {{"self", Trained({3, 4})}, {"size", Ints({3, 4})}}},
      {"aten.ones.default", {{"size", Ints({3, 4})}}},
      {"aten.pad.default", {{"self", Trained({3, 4})}, {"pad", Ints({0, 1})}}},
      {"aten.roll.default", {{"self", Trained({3, 4})}, {"shifts", Ints({1})}, {"dims", Ints({1})}}},
      {"aten.select_scatter.default",
       {{"self", Trained({3, 4})},
        {"src", Trained({4})},
        {"dim", Operand(int64_t{0})},
        {"index", Operand(int64_t{1})}}},
      unary("aten.sin.default"),
      {"aten.slice_scatter.default",
       {{"self", Trained({3, 4})},
        {"src", Trained({1, 4})},
        {"dim", Operand(int64_t{0})},
        {"start", Operand(int64_t{2})}}},
      {"aten.where.self",
       {{"condition", at::ones({3, 4}, at::kBool)}, {"self", Trained({3, 4})}, {"other", Trained({3, 4})}}},
      {"aten.zeros.default", {{"size", Ints({3, 4})}}},
      {"aten.baddbmm.default",
       {{"self", Trained({2, 3, 5})}, {"batch1", Trained({2, 3, 4})}, {"batch2", Trained({2, 4, 5})}}},
      {"aten.bitwise_not.default", {{"self", at::ones({3, 4}, at::kBool)}}},
      {"aten.clamp.default", {{"self", Trained({3, 4})}, {"min", Operand(0.0)}, {"max", Operand(0.5)}}},
      {"aten.clamp_min.default", {{"self", Trained({3, 4})}, {"min", Operand(0.0)}}},
      {"aten.copy.default", {{"self", Trained({3, 4})}, {"src", Trained({3, 4})}}},
      {"aten.copy_.default", {{"self", Trained({3, 4})}, {"src", Trained({3, 4})}}},
      {"aten.einsum.default",
       {{"equation", Operand(std::string("ij,jk->ik"))}, {"tensors", Trained({3, 4})}, {"tensors", Trained({4, 5})}}},
      unary("aten.exp.default"),
      {"aten.expand_as.default", {{"self", Trained({3, 4})}, {"other", Trained({2, 3, 4})}}},
      {"aten.full.default", {{"size", Ints({3, 4})}, {"fill_value", Operand(2.0)}}},
      binary("aten.gt.Tensor"),
      {"aten.le.Scalar", {{"self", Trained({3, 4})}, {"other", Operand(int64_t{0})}}},
      {"aten.linalg_vector_norm.default", {{"self", Trained({3, 4})}, {"dim", Ints({1})}}},
      unary("aten.logical_not.default"),
      unary("aten.numpy_T.default"),
      {"aten.pow.Tensor_Tensor", {{"self", Trained({3, 4})}, {"exponent", Trained({3, 4})}}},
      {"aten.repeat.default", {{"self", Trained({3, 4})}, {"repeats", Ints({2, 1})}}},
      {"aten.rsub.Scalar", {{"self", Trained({3, 4})}, {"other", Operand(1.0)}}},
      unary("aten.sqrt.default"),
      {"aten.swapaxes.default",
       {{"self", Trained({3, 4})}, {"axis0", Operand(int64_t{0})}, {"axis1", Operand(int64_t{1})}}},
      unary("aten.triu.default"),
      {"aten.unbind.int", {{"self", Trained({1, 4})}, {"dim", Operand(int64_t{0})}}},
      unary("aten.zero.default"),
      unary("aten.zero_.default"),
      {"aten.conv_transpose2d.input",
       {{"input", Trained({2, 3, 6, 6})}, {"weight", Trained({3, 4, 3, 3})}, {"bias", Trained({4})}}},
      {"aten.gather.default",
       {{"self", Trained({3, 4})}, {"dim", Operand(int64_t{1})}, {"index", at::zeros({3, 2}, at::kLong)}}},
      Recurrent("aten.gru.input", /*num_states=*/1, /*num_gates=*/3),
      Recurrent("aten.lstm.input", /*num_states=*/2, /*num_gates=*/4),
  };
}

Dtype DtypeOf(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kLong   ? Dtype::kInt64
         : tensor.scalar_type() == at::kBool ? Dtype::kBool
                                             : Dtype::kFloat32;
}

int NumResults(const std::string& op) { return op == "aten.lstm.input" ? 3 : op == "aten.gru.input" ? 2 : 1; }

// Returns whether the call's argument of this name is a list.
bool IsList(const OpCall& call, const std::string& name) {
  return name == "tensors" || name == "params" || (name == "indices" && call.op == "aten.index.Tensor") ||
         (name == "hx" && call.op == "aten.lstm.input");
}

// Returns a graph with only the call's node, and an input for each tensor. Moves the tensors from the call to `inputs`.
Graph GraphOf(OpCall& call, std::vector<at::Tensor>& inputs) {
  Graph graph("one");
  Node node = {.op = call.op, .arguments = {}, .outputs = {}, .module_path = {}};
  std::map<std::string, std::vector<std::optional<ValueId>>> lists;
  for (Given& given : call.arguments) {
    if (const auto* constant = std::get_if<Operand>(&given.value)) {
      node.Set(given.name, *constant);
      continue;
    }
    auto& tensor = std::get<at::Tensor>(given.value);
    const graph::Shape shape(tensor.sizes().begin(), tensor.sizes().end());
    const ValueId input = graph.AddInput(given.name, {DtypeOf(tensor), shape});
    inputs.push_back(std::move(tensor));
    if (IsList(call, given.name)) {
      lists[given.name].push_back(input);
      node.Set(given.name, lists[given.name]);
    } else {
      node.Set(given.name, input);
    }
  }
  for (int i = 0; i < NumResults(call.op); ++i) {
    node.outputs.push_back(graph.AddValue("y", {Dtype::kFloat32, {}}));
  }
  graph.AddOutput("y", node.outputs.front());
  graph.AddNode(std::move(node));
  return graph;
}

// Returns what the op keeps in memory for its backward pass: the names of arguments, and "result". A list is named if
// any of its tensors is kept.
std::set<std::string> Saved(OpCall& call, bool& has_gradient) {
  std::vector<std::string> names;
  for (const Given& given : call.arguments) {
    if (std::holds_alternative<at::Tensor>(given.value)) {
      names.push_back(given.name);
    }
  }
  std::vector<at::Tensor> inputs;
  const Graph graph = GraphOf(call, inputs);
  std::vector<std::pair<std::string, WeakStorage>> storages;
  for (size_t i = 0; i < inputs.size(); ++i) {
    storages.emplace_back(names[i], inputs[i].storage().getWeakStorageImpl());
  }
  auto executor = Executor::Create(graph, OpRegistry());
  EXPECT_TRUE(executor.ok()) << executor.status();
  EXPECT_TRUE((*executor)->Bind({}).ok());
  at::Tensor result = (*executor)->Run(std::move(inputs))[0];
  has_gradient = result.requires_grad();
  const auto backward = has_gradient ? result.grad_fn() : nullptr;
  storages.emplace_back("result", result.storage().getWeakStorageImpl());
  result.reset();
  std::set<std::string> saved;
  for (const auto& [name, storage] : storages) {
    if (!storage.expired()) {
      saved.insert(name);
    }
  }
  return saved;
}

// The names in OpRow::saves, without internal tensors of the op ("result.mask").
std::set<std::string> Expected(const graph::OpRow& row) {
  std::set<std::string> names;
  for (std::string_view name : row.saves) {
    if (name.find('.') == std::string_view::npos) {
      names.emplace(name);
    }
  }
  return names;
}

TEST(OpTable, SavesWhatAutogradKeepsAlive) {
  for (OpCall& call : Calls()) {
    const graph::OpRow* row = graph::FindOp(call.op);
    ASSERT_NE(row, nullptr) << call.op;
    bool has_gradient = false;
    EXPECT_EQ(Saved(call, has_gradient), Expected(*row)) << call.op;
    EXPECT_EQ(has_gradient, !row->no_gradient) << call.op;
  }
}

TEST(OpTable, EveryRowIsCheckedHere) {
  std::set<std::string> called, rows;
  for (const OpCall& call : Calls()) {
    called.insert(call.op);
  }
  for (const graph::OpRow& row : graph::AllOps()) {
    rows.emplace(row.op);
  }
  EXPECT_EQ(called, rows);
}

}  // namespace
}  // namespace ampd::executor
