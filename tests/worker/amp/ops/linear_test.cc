// Compares linear layers that use the CUDA kernels with LibTorch's linear layer. The kernels' source runs here over an
// emulated CUDA on CPU tensors.
#include "worker/amp/ops/linear.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ATen/Context.h"
#include "ATen/TensorOperators.h"
#include "ATen/core/grad_mode.h"
#include "ATen/core/ivalue.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/zeros.h"
#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kBFloat16, at::kHalf};
constexpr const char* kNames[] = {"input", "weight", "bias"};

at::Tensor Compute(const Tensors& operands, bool with_kernels = true) {
  std::string why;
  ComputeDevice device;
  device.cuda_kernels = with_kernels ? kernels::KernelsUnderTest(&why) : nullptr;
  executor::OpRegistry registry;
  RegisterLinear(registry, device);
  std::vector<c10::IValue> stack(operands.begin(), operands.end());
  (*registry.Find("ampd.linear"))(stack);
  EXPECT_EQ(stack.size(), 1);
  return stack[0].toTensor();
}

at::Tensor LibTorchs(const Tensors& operands) { return at::linear(operands[0], operands[1], operands[2]); }

// Returns new leaf tensors with the numbers and layouts of `operands`. Those whose indices are in `trained` require
// gradients.
Tensors Leaves(const Tensors& operands, const std::vector<size_t>& trained = {0, 1, 2}) {
  Tensors leaves;
  for (const at::Tensor& operand : operands) {
    leaves.push_back(operand.detach());
  }
  for (const size_t i : trained) {
    leaves[i].requires_grad_(true);
  }
  return leaves;
}

Tensors Operands(std::vector<int64_t> sizes, int64_t outputs, at::ScalarType dtype = at::kFloat) {
  const int64_t inputs = sizes.back();
  Tensors operands = {at::randn(sizes), at::randn({outputs, inputs}), at::randn({outputs})};
  for (at::Tensor& operand : operands) {
    operand = operand.to(dtype);
  }
  return operands;
}

void ExpectClose(const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.defined(), expected.defined()) << what;
  if (!expected.defined()) {
    return;
  }
  const at::ScalarType dtype = expected.scalar_type();
  EXPECT_EQ(actual.scalar_type(), dtype) << what;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const double tolerance = dtype == at::kFloat ? 2e-5 : dtype == at::kBFloat16 ? 0.02 : 0.003;
  const at::Tensor wide = expected.detach().to(at::kFloat);
  const at::Tensor error = (actual.detach().to(at::kFloat) - wide).abs();
  EXPECT_TRUE((error <= tolerance * (1 + wide.abs())).all().item<bool>()) << what << " differs by " << error.max();
}

// Compares the result and all gradients with those of LibTorch's linear layer. Both backward passes start with the same
// gradient.
void ExpectLikeLibTorch(const Tensors& operands, const std::string& what,
                        const std::vector<size_t>& trained = {0, 1, 2}) {
  const Tensors ours = Leaves(operands, trained), theirs = Leaves(operands, trained);
  const at::Tensor result = Compute(ours), expected = LibTorchs(theirs);
  EXPECT_TRUE(at::equal(result, expected)) << what;
  const at::Tensor gradient = at::randn(expected.sizes()).to(expected.scalar_type());
  result.backward(gradient);
  expected.backward(gradient);
  for (size_t i = 0; i < operands.size(); ++i) {
    ExpectClose(ours[i].grad(), theirs[i].grad(), what + ", " + kNames[i]);
  }
}

class LinearTest : public testing::Test {
 protected:
  void SetUp() override { at::manual_seed(5); }
};

TEST_F(LinearTest, ResultsEqualLibTorchsForEveryShapeAndDtype) {
  for (const at::ScalarType dtype : kDtypes) {
    for (const std::vector<int64_t>& sizes :
         std::vector<std::vector<int64_t>>{{1, 1}, {5, 16}, {3, 7, 24}, {2, 2, 3, 9}}) {
      for (const int64_t outputs : {1, 13, 32}) {
        ExpectLikeLibTorch(Operands(sizes, outputs, dtype), c10::str(dtype, " ", sizes, " to ", outputs));
      }
    }
  }
}

// The bias's gradient is a sum over all rows. With this many rows, the kernel splits the sum into several slices.
TEST_F(LinearTest, ResultsEqualLibTorchsForManyRows) { ExpectLikeLibTorch(Operands({4, 500, 8}, 320), "many rows"); }

// The weight of GPT-2's layers is a transposed view. Autograd passes the view's gradient on to the stored tensor.
TEST_F(LinearTest, TheGradientOfTheWeightHasItsLayout) {
  for (const bool is_transposed : {false, true}) {
    Tensors operands = Operands({3, 7, 24}, 16);
    const at::Tensor stored = is_transposed ? at::randn({24, 16}) : operands[1];
    Tensors gradients;
    for (const bool is_ours : {true, false}) {
      const at::Tensor leaf = stored.detach().requires_grad_(true);
      const at::Tensor weight = is_transposed ? leaf.t() : leaf.view({16, 24});
      weight.register_hook([&](const at::Tensor& gradient) { gradients.push_back(gradient); });
      operands[1] = weight;
      (is_ours ? Compute(operands) : LibTorchs(operands)).square().sum().backward();
      gradients.push_back(leaf.grad());
    }
    ASSERT_EQ(gradients.size(), 4);
    EXPECT_EQ(gradients[0].strides(), gradients[2].strides()) << is_transposed;
    EXPECT_EQ(gradients[1].strides(), stored.strides()) << is_transposed;
    ExpectClose(gradients[1], gradients[3], "weight");
  }
}

TEST_F(LinearTest, OtherLayoutsAreRead) {
  Tensors operands = Operands({3, 7, 24}, 16);
  operands[0] = at::randn({7, 3, 24}).transpose(0, 1);
  ExpectLikeLibTorch(operands, "transposed input");
  operands = Operands({6, 24}, 16);
  operands[0] = at::randn({24, 6}).t();
  operands[1] = at::randn({16, 48}).slice(1, 0, 48, 2);
  ExpectLikeLibTorch(operands, "transposed matrix, strided weight");
}

TEST_F(LinearTest, AGradientOfAnyLayoutIsRead) {
  const Tensors operands = Operands({3, 7, 24}, 16);
  const Tensors ours = Leaves(operands), theirs = Leaves(operands);
  Compute(ours).sum().backward();
  LibTorchs(theirs).sum().backward();
  const at::Tensor factors = at::randn({3, 16, 7});
  (Compute(ours).transpose(1, 2) * factors).sum().backward();
  (LibTorchs(theirs).transpose(1, 2) * factors).sum().backward();
  for (size_t i = 0; i < operands.size(); ++i) {
    ExpectClose(ours[i].grad(), theirs[i].grad(), kNames[i]);
  }
}

TEST_F(LinearTest, OperandsWithoutGradientsGetNone) {
  for (const size_t with : {0, 1, 2}) {
    ExpectLikeLibTorch(Operands({3, 7, 24}, 16), c10::str("only ", kNames[with]), {with});
  }
}

TEST_F(LinearTest, LibTorchComputesWhatTheKernelDoesNotSupport) {
  const Tensors empty = Leaves(Operands({0, 24}, 16));
  Compute(empty).sum().backward();
  EXPECT_TRUE(at::equal(empty[2].grad(), at::zeros({16})));
  ExpectLikeLibTorch(Operands({24}, 16), "vector");
  ExpectLikeLibTorch(Operands({5, 24}, 16, at::kDouble), "double");
  const Tensors operands = Operands({5, 24}, 16);
  EXPECT_TRUE(at::equal(Compute(operands, /*with_kernels=*/false), LibTorchs(operands)));
}

TEST_F(LinearTest, WithoutAutogradGivesTheSameBits) {
  const Tensors operands = Operands({3, 7, 24}, 16, at::kBFloat16);
  const at::Tensor recorded = Compute(Leaves(operands));
  const at::NoGradGuard no_grad;
  const at::Tensor result = Compute(Leaves(operands));
  EXPECT_FALSE(result.requires_grad());
  EXPECT_TRUE(at::equal(result, recorded));
}

}  // namespace
}  // namespace ampd::amp
