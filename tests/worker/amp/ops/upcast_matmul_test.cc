#include "worker/amp/ops/upcast_matmul.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/ivalue.h"
#include "ATen/ops/conv2d.h"
#include "ATen/ops/conv_transpose2d.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/eye.h"
#include "ATen/ops/gru.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/lstm.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/scaled_dot_product_attention.h"
#include "c10/util/Exception.h"

namespace ampd::amp {
namespace {

using Tensors = std::vector<at::Tensor>;
using Op = std::function<at::Tensor(const Tensors&)>;

// Returns the result of the op, followed by the gradients of the arguments.
Tensors BothPasses(const Tensors& arguments, const at::Tensor& gradient, const Op& op) {
  Tensors leaves;
  for (const at::Tensor& argument : arguments) {
    leaves.push_back(argument.detach().clone().requires_grad_());
  }
  const at::Tensor result = op(leaves);
  result.backward(gradient.to(result.scalar_type()));
  Tensors all = {result.detach()};
  for (const at::Tensor& leaf : leaves) {
    all.push_back(leaf.grad());
  }
  return all;
}

struct WideOp {
  std::string name;
  std::vector<std::vector<int64_t>> shapes;  // Shapes of the arguments that have a gradient.
  std::vector<int64_t> result;               // Shape of the result.
  Op in_fp32;                                // The op's definition, on fp32 arguments.
  std::function<std::vector<c10::IValue>(const Tensors& arguments)> as_stack;  // Makes the stack that the op gets.
};

const std::vector<int64_t> kOnes = {1, 1};
const std::vector<int64_t> kZeros = {0, 0};

// A list argument of a node, in which tensors may be missing.
c10::IValue ListOf(at::ArrayRef<at::Tensor> tensors) {
  return std::vector<std::optional<at::Tensor>>(tensors.begin(), tensors.end());
}
c10::IValue From(size_t first, const Tensors& tensors) {
  return ListOf(at::ArrayRef<at::Tensor>(tensors).slice(first));
}

std::vector<WideOp> WideOps() {
  return {
      {"linear",
       {{2, 5, 7}, {3, 7}, {3}},
       {2, 5, 3},
       [](const Tensors& t) { return at::linear(t[0], t[1], t[2]); },
       [](const Tensors& t) {
         return std::vector<c10::IValue>{t[0], t[1], t[2]};
       }},
      {"conv2d",
       {{2, 4, 6, 6}, {6, 2, 3, 3}, {6}},
       {2, 6, 3, 3},
       [](const Tensors& t) {
         return at::conv2d(t[0], t[1], t[2], {2, 2}, {1, 1}, {1, 1}, 2);
       },
       [](const Tensors& t) {
         return std::vector<c10::IValue>{t[0],  t[1], t[2], std::vector<int64_t>{2, 2}, std::vector<int64_t>{1, 1},
                                         kOnes, 2};
       }},
      {"conv_transpose2d",
       {{2, 4, 3, 3}, {4, 5, 3, 3}},
       {2, 5, 6, 6},
       [](const Tensors& t) {
         return at::conv_transpose2d(t[0], t[1], {}, {2, 2}, {1, 1}, {1, 1});
       },
       [](const Tensors& t) {
         return std::vector<c10::IValue>{t[0],
                                         t[1],
                                         c10::IValue(),
                                         std::vector<int64_t>{2, 2},
                                         std::vector<int64_t>{1, 1},
                                         kOnes,
                                         1,
                                         std::vector<int64_t>{1, 1}};
       }},
      {"lstm",
       {{2, 4, 3}, {1, 2, 5}, {1, 2, 5}, {20, 3}, {20, 5}},
       {2, 4, 5},
       [](const Tensors& t) {
         return std::get<0>(at::lstm(t[0], {t[1], t[2]}, {t[3], t[4]}, false, 1, 0.0, true, false, true));
       },
       [](const Tensors& t) {
         return std::vector<c10::IValue>{t[0], ListOf({t[1], t[2]}), From(3, t), false, 1, 0.0, true, false, true};
       }},
      {"gru",
       {{2, 4, 3}, {1, 2, 5}, {15, 3}, {15, 5}},
       {2, 4, 5},
       [](const Tensors& t) {
         return std::get<0>(at::gru(t[0], t[1], {t[2], t[3]}, false, 1, 0.0, true, false, true));
       },
       [](const Tensors& t) {
         return std::vector<c10::IValue>{t[0], t[1], From(2, t), false, 1, 0.0, true, false, true};
       }},
  };
}

// Operands of 16 bits are exact in fp32, so each result differs from the fp32 result by one rounding only.
TEST(UpcastMatmul, RoundResultsAndGradientsOnce) {
  executor::OpRegistry registry;
  RegisterUpcastMatmul(registry);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    for (const WideOp& op : WideOps()) {
      SCOPED_TRACE(op.name + (type == at::kHalf ? " in fp16" : " in bf16"));
      Tensors narrow, wide;
      for (const std::vector<int64_t>& shape : op.shapes) {
        narrow.push_back(at::randn(shape).to(type));
        wide.push_back(narrow.back().to(at::kFloat));
      }
      const at::Tensor gradient = at::randn(op.result).to(type);
      const Tensors expected = BothPasses(wide, gradient, op.in_fp32);
      const Tensors got = BothPasses(narrow, gradient, [&](const Tensors& leaves) {
        std::vector<c10::IValue> stack = op.as_stack(leaves);
        (*registry.Find("ampd." + op.name + "_wide"))(stack);
        return stack.at(0).toTensor();
      });
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(got[i].scalar_type(), type) << i;
        EXPECT_TRUE(at::equal(got[i], expected[i].to(type))) << i;
      }
    }
  }
}

// A case in which the op's attention on 16-bit operands is compared with fp32 attention on the same operands.
// `mask_trains` says whether the mask has a gradient, too.
struct AttentionCase {
  std::string name;
  std::vector<std::vector<int64_t>> shapes;  // Shapes of the query, key and value.
  bool is_causal = false;
  std::optional<at::Tensor> mask;
  bool mask_trains = false;
};

std::vector<AttentionCase> AttentionCases() {
  const std::vector<int64_t> usual = {2, 3, 9, 8};
  const at::Tensor truths = at::randn({2, 1, 9, 9}).gt(-0.5).logical_or(at::eye(9).to(at::kBool));
  return {{"causal", {usual, usual, usual}, true, {}},
          {"without a mask", {usual, {2, 3, 5, 8}, {2, 3, 5, 8}}, false, {}},
          {"a mask of truth values", {usual, usual, usual}, false, truths},
          {"a mask of numbers", {usual, usual, usual}, false, at::randn({2, 1, 9, 9})},
          {"the lowest numbers", {usual, usual, usual}, false, truths.logical_not().to(at::kFloat).mul(-3e38)},
          {"a mask for all heads", {usual, usual, usual}, false, at::randn({9, 9})},
          {"a mask that trains", {usual, usual, usual}, false, at::randn({1, 3, 9, 9}), true},
          {"a mask of three dimensions", {usual, usual, usual}, false, at::randn({3, 9, 9})},
          {"wider values", {usual, usual, {2, 3, 9, 6}}, false, {}},
          {"three dimensions", {{3, 9, 8}, {3, 9, 8}, {3, 9, 8}}, false, {}}};
}

// The op saves its result in 16 bits for the backward pass, as a GPU's kernel does. The gradients are therefore close
// to those in fp32, but not equal.
TEST(UpcastMatmul, AttendInFp32) {
  executor::OpRegistry registry;
  RegisterUpcastMatmul(registry);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    for (const AttentionCase& attention : AttentionCases()) {
      SCOPED_TRACE(attention.name + (type == at::kHalf ? " in fp16" : " in bf16"));
      Tensors narrow, wide;
      for (const std::vector<int64_t>& shape : attention.shapes) {
        narrow.push_back(at::randn(shape).to(type));
      }
      std::optional<at::Tensor> mask = attention.mask;
      if (mask.has_value() && mask->is_floating_point()) {
        mask = mask->to(type);
      }
      if (attention.mask_trains) {
        narrow.push_back(*mask);
      }
      for (const at::Tensor& tensor : narrow) {
        wide.push_back(tensor.to(at::kFloat));
      }
      std::vector<int64_t> shape = attention.shapes[0];
      shape.back() = attention.shapes[2].back();
      const at::Tensor gradient = at::randn(shape).to(type);
      const Tensors expected = BothPasses(wide, gradient, [&](const Tensors& t) {
        const bool added = mask.has_value() && mask->is_floating_point();
        const std::optional<at::Tensor> wide_mask = added ? std::optional(mask->to(at::kFloat)) : mask;
        return at::scaled_dot_product_attention(t[0], t[1], t[2], t.size() > 3 ? std::optional(t[3]) : wide_mask, 0.0,
                                                attention.is_causal);
      });
      const Tensors got = BothPasses(narrow, gradient, [&](const Tensors& t) {
        const c10::IValue given = t.size() > 3 ? c10::IValue(t[3]) : c10::IValue(mask);
        std::vector<c10::IValue> stack = {t[0], t[1], t[2], attention.is_causal, given};
        (*registry.Find("ampd.attention_wide"))(stack);
        return stack.at(0).toTensor();
      });
      EXPECT_TRUE(at::equal(got[0], expected[0].to(type)));
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(got[i].scalar_type(), type) << i;
        const double error = got[i].to(at::kDouble).sub(expected[i]).norm().item<double>();
        EXPECT_LT(error, (type == at::kHalf ? 1e-3 : 8e-3) * expected[i].norm().item<double>()) << i;
      }
    }
  }
}

// LibTorch's kernel would read as many keys as there are values.
TEST(UpcastMatmul, AttentionToOtherNumbersOfKeysAndValuesIsAnError) {
  executor::OpRegistry registry;
  RegisterUpcastMatmul(registry);
  for (const bool is_matrix : {false, true}) {
    const auto heads = [&](int64_t length) {
      const at::Tensor all = at::randn({2, 3, length, 8}).to(at::kHalf);
      return is_matrix ? all[0][0] : all;
    };
    std::vector<c10::IValue> stack = {heads(9), heads(5), heads(7), false, c10::IValue()};
    EXPECT_THROW((*registry.Find("ampd.attention_wide"))(stack), c10::Error) << is_matrix;
  }
}

}  // namespace
}  // namespace ampd::amp
