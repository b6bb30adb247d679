#include "worker/train/report/gradient_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ATen/ops/full.h"

namespace ampd::train {
namespace {

using ::testing::ElementsAre;

constexpr precision::LossScaleConfig kOff = {};
constexpr precision::LossScaleConfig kScaled = {.kind = precision::LossScaleConfig::Kind::kDynamic, .cap = 0x1p24};

// Returns the gradient sample of one parameter, whose gradient has `count` elements, all equal to `value`.
amp::GradientSample Sample(const std::string& module, const std::string& parameter, int64_t count, double value,
                           at::ScalarType dtype = at::kHalf) {
  amp::GradientSample sample = amp::SampleGradient(at::full({count}, value, at::TensorOptions(dtype)), dtype);
  sample.module = module;
  sample.parameter = parameter;
  return sample;
}

TEST(GradientReport, PutsTheParametersOfAModuleTogetherByFormat) {
  const v1::GradientSamples report =
      ReportGradients({Sample("head", "head.weight", 6, 0x1p-4), Sample("body", "body.weight", 5, 0),
                       Sample("head", "head.bias", 2, 0x1p-6), Sample("head", "head.scale", 3, 1, at::kFloat)},
                      1024, kScaled);
  ASSERT_EQ(report.modules_size(), 3);
  EXPECT_EQ(report.modules(0).module(), "head");
  EXPECT_EQ(report.modules(0).dtype(), "float16");
  EXPECT_EQ(report.modules(0).num_elements(), 8);
  EXPECT_EQ(report.modules(0).least_exponent(), -6);
  EXPECT_THAT(report.modules(0).counts(), ElementsAre(2, 0, 6));
  EXPECT_EQ(report.modules(1).num_zero(), 5);
  EXPECT_THAT(report.modules(1).counts(), ElementsAre());
  EXPECT_EQ(report.modules(2).dtype(), "float32");
  EXPECT_EQ(report.modules(2).least_exponent(), 0);
  EXPECT_EQ(report.loss_scale(), 1024);
  EXPECT_EQ(report.suggested_scale(), 1024 * 0x1p12);
}

TEST(GradientReport, ALayerInFp8HasWhatTheCanarySawInItsFirstRow) {
  amp::Fp8Finding layer;
  layer.module = "body";
  for (int i = 0; i < 3; ++i) {
    layer.underflow[i] = 0.01 * (i + 1);
    layer.saturation[i] = 0.1 * (i + 1);
    layer.errors[i] = 0.001 * (i + 1);
  }
  amp::Fp8Finding frozen = {.module = "frozen", .demoted = true};
  const v1::GradientSamples report =
      ReportGradients({Sample("head", "head.weight", 6, 1), Sample("body", "body.weight", 5, 1, at::kBFloat16),
                       Sample("body", "body.bias", 5, 1, at::kFloat)},
                      1, kOff, {.step = 2001, .layers = {layer, frozen}});
  ASSERT_EQ(report.modules_size(), 4);
  EXPECT_FALSE(report.modules(0).has_fp8());
  EXPECT_FALSE(report.modules(2).has_fp8()) << "once a module";
  EXPECT_EQ(report.modules(1).fp8().ShortDebugString(),
            "step: 2001 input_underflow: 0.01 weight_underflow: 0.02 gradient_underflow: 0.03 input_saturation: 0.1 "
            "weight_saturation: 0.2 gradient_saturation: 0.30000000000000004 forward_error: 0.001 "
            "input_gradient_error: 0.002 weight_gradient_error: 0.003");
  EXPECT_EQ(report.modules(3).module(), "frozen");
  EXPECT_TRUE(report.modules(3).fp8().demoted());
}

TEST(GradientReport, IsDescribedInOneLine) {
  EXPECT_EQ(Describe(ReportGradients({Sample("a", "a.weight", 4, 0x1p-20), Sample("b", "b.weight", 2, 1)}, 8, kScaled)),
            "4 of 6 gradient elements (2 modules) lost precision by underflow; the loss scale is 8, and these "
            "gradients suggest a loss scale of 32768");
  EXPECT_EQ(Describe(ReportGradients({Sample("a", "a.weight", 4, INFINITY)}, 8, kScaled)),
            "0 of 4 gradient elements (1 module) lost precision by underflow, and 4 elements are not finite; the loss "
            "scale is 8, and these gradients suggest a loss scale of 8");
  EXPECT_EQ(Describe(ReportGradients({Sample("a", "a.weight", 4, 1, at::kBFloat16)}, 1, kOff)),
            "0 of 4 gradient elements (1 module) lost precision by underflow; the loss is not scaled");
}

TEST(GradientReport, HasWhatWentWrongInTheForwardPass) {
  amp::ActivationFault fault;
  fault.kind = amp::ActivationFault::Kind::kDividedOut;
  fault.module = "layers.0.norm";
  fault.op = "aten.mul.Tensor";
  fault.value = "mul_3";
  fault.dtype = "float16";
  fault.share = 0.75;
  fault.zero_module = "layers.0.norm";
  fault.zero_op = "aten.rsqrt.default";
  const v1::GradientSamples report = ReportGradients({Sample("a", "a.weight", 4, 1)}, 8, kScaled, {}, fault);
  EXPECT_EQ(report.activation_fault().ShortDebugString(),
            "kind: DIVIDED_OUT module: \"layers.0.norm\" op: \"aten.mul.Tensor\" value: \"mul_3\" dtype: \"float16\" "
            "share: 0.75 zero_module: \"layers.0.norm\" zero_op: \"aten.rsqrt.default\"");
  EXPECT_NE(Describe(report).find("; in the forward pass aten.mul.Tensor of layers.0.norm overflows float16"),
            std::string::npos)
      << Describe(report);
  fault = {};
  fault.op = "input";
  fault.value = "images";
  fault.dtype = "float32";
  EXPECT_EQ(
      Describe(ToProto(fault)),
      "numbers that are not finite appear first in the input images (0.0% of its numbers, in float32); they make the "
      "loss not finite");
}

TEST(GradientReport, SuggestsAScaleOnlyWhereOneMayHelpAndNoneBeyondTheCap) {
  const auto suggested = [](at::ScalarType dtype, const precision::LossScaleConfig& scaling) {
    return ReportGradients({Sample("a", "a.weight", 4, 0x1p-14, dtype)}, 1, scaling).suggested_scale();
  };
  EXPECT_EQ(suggested(at::kBFloat16, kOff), 0);
  EXPECT_EQ(suggested(at::kHalf, kOff), 0x1p26) << "what the policy would have to turn on";
  EXPECT_EQ(suggested(at::kBFloat16, kScaled), 0x1p24);
  EXPECT_EQ(suggested(at::kHalf, kScaled), 0x1p24);
}

TEST(WorstModules, OfEachTheLargestShareAndTheWorstFirst) {
  EXPECT_EQ(WorstModules({{"a", 0.2}, {"b", 0.05}, {"c", 0.5}, {"a", 0.7}, {"c", 0.1}}, 0.1), "a 0.700, c 0.500");
  EXPECT_EQ(WorstModules({{"a", 0.1}}, 0.1), "");
  EXPECT_EQ(WorstModules({{"later", 0.3}, {"earlier", 0.3}}, 0.1), "later 0.300, earlier 0.300");
}

TEST(WorstModules, NoMoreThanEight) {
  std::vector<ModuleLoss> losses;
  for (int i = 0; i < 20; ++i) {
    losses.push_back({"h." + std::to_string(i), 0.5 + 0.01 * i});
  }
  EXPECT_EQ(WorstModules(losses, 0.1),
            "h.19 0.690, h.18 0.680, h.17 0.670, h.16 0.660, h.15 0.650, h.14 0.640, h.13 0.630, h.12 0.620");
}

}  // namespace
}  // namespace ampd::train
