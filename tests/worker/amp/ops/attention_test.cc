#include "worker/amp/ops/attention.h"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/core/ivalue.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/scaled_dot_product_attention.h"
#include "c10/util/Exception.h"
#include "graph/builder/builder.h"
#include "worker/kernels/cpu/attention.h"

namespace ampd::amp {
namespace {

constexpr char kOp[] = "ampd.attention_bf16";

// The result of attention and the gradient of its input. The input is one tensor of queries, keys and values, as a
// layer makes it: (B, T, 3 * heads * D).
struct Pass {
  at::Tensor result;
  at::Tensor gradient;
};

template <typename Attend>
Pass BothPasses(const at::Tensor& joined, int64_t num_heads, const at::Tensor& result_gradient, const Attend& attend) {
  const at::Tensor leaf = joined.detach().requires_grad_();
  const int64_t width = joined.size(2) / 3;
  std::vector<at::Tensor> heads;
  for (const at::Tensor& part : leaf.split(width, 2)) {
    heads.push_back(part.view({joined.size(0), joined.size(1), num_heads, width / num_heads}).transpose(1, 2));
  }
  const at::Tensor result = attend(heads[0], heads[1], heads[2]);
  result.backward(result_gradient.to(result.scalar_type()));
  return {result.detach(), leaf.grad()};
}

class AttentionOp : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (kernels::BestAttention() == nullptr) {
      GTEST_SKIP() << "this CPU has no products of bf16";
    }
    RegisterAttention(registry_);
  }

  Pass Ours(const at::Tensor& joined, int64_t num_heads, const at::Tensor& gradient) const {
    return BothPasses(joined, num_heads, gradient,
                      [&](const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
                        std::vector<c10::IValue> stack = {query, key, value, GetParam()};
                        (*registry_.Find(kOp))(stack);
                        return stack.at(0).toTensor();
                      });
  }

  static Pass LibTorchs(const at::Tensor& joined, int64_t num_heads, const at::Tensor& gradient) {
    return BothPasses(joined, num_heads, gradient,
                      [](const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
                        return at::scaled_dot_product_attention(query, key, value, {}, 0.0, GetParam());
                      });
  }

  executor::OpRegistry registry_;
};

INSTANTIATE_TEST_SUITE_P(FullAndCausal, AttentionOp, testing::Bool());

double ErrorOf(const at::Tensor& got, const at::Tensor& expected) {
  return got.to(at::kDouble).sub(expected).norm().item<double>() / expected.norm().item<double>();
}

TEST_P(AttentionOp, IsAsNearToTheExactNumbersAsLibTorchsOwn) {
  for (const auto& [length, num_heads, width] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 1, 32}, {33, 3, 32}, {256, 6, 64}, {100, 2, 96}}) {
    const at::Tensor joined = at::randn({2, length, 3 * num_heads * width}).to(at::kBFloat16);
    const at::Tensor gradient = at::randn({2, num_heads, length, width}).to(at::kBFloat16);
    const Pass exact = LibTorchs(joined.to(at::kDouble), num_heads, gradient);
    const Pass theirs = LibTorchs(joined, num_heads, gradient);
    const Pass ours = Ours(joined, num_heads, gradient);
    EXPECT_EQ(ours.result.strides(), theirs.result.strides());
    EXPECT_LE(ErrorOf(ours.result, exact.result), 1.2 * ErrorOf(theirs.result, exact.result) + 1e-6) << length;
    EXPECT_LE(ErrorOf(ours.gradient, exact.gradient), 1.2 * ErrorOf(theirs.gradient, exact.gradient) + 1e-6) << length;
  }
}

TEST_P(AttentionOp, GivesTheSameBitsForEveryNumberOfThreads) {
  const at::Tensor joined = at::randn({3, 130, 384}).to(at::kBFloat16);
  const at::Tensor gradient = at::randn({3, 2, 130, 64}).to(at::kBFloat16);
  at::set_num_threads(1);
  const Pass expected = Ours(joined, 2, gradient);
  for (const int num_threads : {2, 5}) {
    at::set_num_threads(num_threads);
    const Pass pass = Ours(joined, 2, gradient);
    EXPECT_TRUE(at::equal(pass.result, expected.result)) << num_threads;
    EXPECT_TRUE(at::equal(pass.gradient, expected.gradient)) << num_threads;
  }
}

TEST_P(AttentionOp, LeavesWidthsThatTheKernelDoesNotTakeToLibTorch) {
  const at::Tensor joined = at::randn({2, 9, 120}).to(at::kBFloat16);
  const at::Tensor gradient = at::randn({2, 2, 9, 20}).to(at::kBFloat16);
  const Pass ours = Ours(joined, 2, gradient);
  const Pass theirs = LibTorchs(joined, 2, gradient);
  EXPECT_TRUE(at::equal(ours.result, theirs.result));
  EXPECT_TRUE(at::equal(ours.gradient, theirs.gradient));
}

// The kernel would read numbers of another format as numbers in bf16.
TEST_P(AttentionOp, OperandsOfSeveralFormatsAreAnError) {
  const at::Tensor heads = at::randn({2, 2, 9, 32}).to(at::kBFloat16);
  for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
    std::vector<c10::IValue> stack = {heads, heads.to(type), heads, GetParam()};
    EXPECT_THROW((*registry_.Find(kOp))(stack), c10::Error) << type;
  }
}

graph::Graph AttentionIn(graph::Dtype dtype, bool is_causal) {
  graph::GraphBuilder b("attention");
  const graph::Shape shape = {graph::Dim::Batch(), 2, 8, 32};
  const graph::ValueId query = b.Input("query", {dtype, shape});
  const graph::ValueId key = b.Input("key", {dtype, shape});
  b.Output("heads", b.Attention("attn", query, key, key, is_causal));
  return std::move(b).Build().value();
}

TEST_P(AttentionOp, TakesThePlaceOfAttentionInBf16Only) {
  const graph::Graph in_bf16 = WithRegisteredAttention(AttentionIn(graph::Dtype::kBFloat16, GetParam()), registry_);
  const graph::Graph in_fp32 = WithRegisteredAttention(AttentionIn(graph::Dtype::kFloat32, GetParam()), registry_);
  EXPECT_EQ(in_bf16.nodes().at(0).op, kOp);
  EXPECT_EQ(in_fp32.nodes().at(0).op, "aten.scaled_dot_product_attention.default");
  const graph::Graph nowhere =
      WithRegisteredAttention(AttentionIn(graph::Dtype::kBFloat16, GetParam()), executor::OpRegistry());
  EXPECT_EQ(nowhere.nodes().at(0).op, "aten.scaled_dot_product_attention.default");
}

}  // namespace
}  // namespace ampd::amp
