// Compares the CUDA kernels for batch norms with plain loops in double. This file is compiled twice: over the emulated
// CUDA of this folder, and over the real CUDA.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/worker/kernels/cuda_fixture.h"
#include "tests/worker/kernels/device_bytes.h"

namespace ampd::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;

double Rounded(double value, Format format) {
  const auto number = static_cast<float>(value);
  return format == Format::kFloat32    ? number
         : format == Format::kBFloat16 ? FromBFloat16(ToBFloat16(number))
                                       : FromFloat16(ToFloat16(number));
}

// The distance between neighbouring numbers of a format around 1.
double Ulp(Format format) {
  return format == Format::kFloat32 ? 0x1p-23 : format == Format::kBFloat16 ? 0x1p-7 : 0x1p-10;
}

struct Case {
  int64_t rows = 0;
  int64_t channels = 0;
  Format format = Format::kFloat32;
  bool relu = false;
  bool adds_residual = false;
  bool affine = true;
  size_t misaligned_by = 0;  // Offset of the matrices from their alignment, in bytes.

  std::string Name() const {
    return std::string(NameOf(format)) + " (" + std::to_string(rows) + ", " + std::to_string(channels) + ")" +
           (relu ? " relu" : "") + (adds_residual ? " residual" : "") + (affine ? "" : " not affine") +
           (misaligned_by > 0 ? " misaligned" : "");
  }
  size_t Elements() const { return static_cast<size_t>(rows * channels); }
};

// The numbers that the forward and the backward pass read. Matrices (rows, channels) hold numbers that are rounded to
// Case::format. `second_gradient` is empty if the output has only one gradient.
struct Inputs {
  std::vector<float> input, residual, gradient, second_gradient, weight, bias, running_mean, running_variance;
};

std::vector<float> Matrix(uint64_t seed, const Case& one) {
  std::vector<float> numbers = RandomNumbers(seed, one.rows * one.channels, -3, 1);
  for (float& number : numbers) {
    number = static_cast<float>(Rounded(number, one.format));
  }
  return numbers;
}

// Returns random inputs. Every third channel has a mean that is large compared with its deviation.
Inputs InputsFor(const Case& one) {
  Inputs inputs = {.input = Matrix(1, one),
                   .residual = Matrix(2, one),
                   .gradient = Matrix(3, one),
                   .second_gradient = {},
                   .weight = RandomNumbers(4, one.channels, -1, 1),
                   .bias = RandomNumbers(5, one.channels, -2, 0),
                   .running_mean = RandomNumbers(6, one.channels),
                   .running_variance = RandomNumbers(7, one.channels)};
  for (size_t i = 0; i < inputs.input.size(); ++i) {
    if (i % static_cast<size_t>(one.channels) % 3 == 1) {
      inputs.input[i] = static_cast<float>(Rounded(inputs.input[i] + 40, one.format));
    }
  }
  return inputs;
}

// The results of the forward and the backward pass, computed by the kernels or by their definition.
struct Results {
  std::vector<float> mean, inverse_std, running_mean, running_variance, output;
  std::vector<float> input_gradient, residual_gradient, weight_gradient, bias_gradient;
};

// Returns the content of device memory without the guard bytes around it, which must be unchanged.
Bytes Unguarded(const DeviceBytes& bytes) {
  const Bytes all = bytes.Read();
  const auto guarded = [](std::byte byte) { return byte == kGuard; };
  EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kGuardBytes, guarded)) << "written before it";
  EXPECT_TRUE(std::all_of(all.end() - kGuardBytes, all.end(), guarded)) << "written behind it";
  return Bytes(all.begin() + kGuardBytes, all.end() - kGuardBytes);
}

// The mask that the forward pass must store with this output.
Bytes MaskOf(const Case& one, const std::vector<float>& output) {
  const auto channels = static_cast<size_t>(one.channels);
  const size_t columns = (channels + 7) / 8;
  Bytes mask(static_cast<size_t>(one.rows) * columns);
  for (size_t i = 0; i < output.size(); ++i) {
    const size_t channel = i % channels;
    const bool passes = output[i] > 0 || std::isnan(output[i]);
    mask[i / channels * columns + channel / 8] |= std::byte{passes} << (channel % 8);
  }
  return mask;
}

// Device memory between guard bytes: a matrix or a vector.
class Guarded {
 public:
  Guarded(const std::vector<float>& numbers, Format format, size_t misaligned_by = 0)
      : format_(format), bytes_(Content(Stored(numbers, format)), misaligned_by) {}
  // Memory to write to, filled with guard bytes.
  Guarded(size_t count, Format format, size_t misaligned_by = 0)
      : format_(format), bytes_(Bytes(count * BytesOf(format) + 2 * kGuardBytes, kGuard), misaligned_by) {}

  template <typename T = void>
  T* at() const {
    return reinterpret_cast<T*>(bytes_.as<std::byte>() + kGuardBytes);
  }
  std::vector<float> Read() const { return Widened(Unguarded(bytes_), format_); }

 private:
  static Bytes Content(const Bytes& inner) {
    Bytes guarded(inner.size() + 2 * kGuardBytes, kGuard);
    std::copy(inner.begin(), inner.end(), guarded.begin() + kGuardBytes);
    return guarded;
  }

  Format format_;
  DeviceBytes bytes_;
};

class CudaBatchNormKernelsTest : public CudaTest {
 protected:
  Results Run(const Case& one, const Inputs& inputs) const {
    constexpr Format kWide = Format::kFloat32;
    const auto channels = static_cast<size_t>(one.channels);
    const auto matrix = [&](const std::vector<float>& numbers) {
      return Guarded(numbers, one.format, one.misaligned_by);
    };
    const auto result = [&] { return Guarded(one.Elements(), one.format, one.misaligned_by); };
    const Guarded input = matrix(inputs.input), residual = matrix(inputs.residual), gradient = matrix(inputs.gradient),
                  second_gradient = matrix(inputs.second_gradient);
    const Guarded weight(inputs.weight, kWide), bias(inputs.bias, kWide), running_mean(inputs.running_mean, kWide),
        running_variance(inputs.running_variance, kWide), mean(channels, kWide), inverse_std(channels, kWide),
        scratch(static_cast<size_t>(BatchNormScratch(one.rows, one.channels)), kWide), weight_gradient(channels, kWide),
        bias_gradient(channels, kWide);
    const Guarded output = result(), input_gradient = result(), residual_gradient = result();
    const bool masks_residual = one.relu && one.adds_residual;
    const size_t mask_bytes = masks_residual ? static_cast<size_t>(one.rows * BatchNormMaskColumns(one.channels)) : 0;
    const DeviceBytes mask(Bytes(mask_bytes + 2 * kGuardBytes, kGuard), /*misaligned_by=*/1);
    auto* const mask_bits = masks_residual ? mask.as<uint8_t>() + kGuardBytes : nullptr;
    const CudaBatchNorm norm = {.format = one.format,
                                .rows = one.rows,
                                .channels = one.channels,
                                .input = input.at(),
                                .weight = one.affine ? weight.at<float>() : nullptr,
                                .bias = one.affine ? bias.at<float>() : nullptr,
                                .relu = one.relu,
                                .adds_residual = one.adds_residual,
                                .mean = mean.at<float>(),
                                .inverse_std = inverse_std.at<float>(),
                                .scratch = scratch.at<float>()};
    const CudaBatchNormForward forward = {.norm = norm,
                                          .epsilon = kEpsilon,
                                          .momentum = kMomentum,
                                          .running_mean = running_mean.at<float>(),
                                          .running_variance = running_variance.at<float>(),
                                          .residual = one.adds_residual ? residual.at() : nullptr,
                                          .output = output.at(),
                                          .relu_mask = mask_bits};
    EXPECT_EQ(kernels_->batch_norm->forward(&forward, nullptr), 0);
    EXPECT_EQ(Unguarded(mask), masks_residual ? MaskOf(one, output.Read()) : Bytes()) << one.Name();
    const CudaBatchNormBackward backward = {
        .norm = norm,
        .gradient = gradient.at(),
        .second_gradient = inputs.second_gradient.empty() ? nullptr : second_gradient.at(),
        .relu_mask = mask_bits,
        .residual_gradient = masks_residual ? residual_gradient.at() : nullptr,
        .input_gradient = input_gradient.at(),
        .weight_gradient = weight_gradient.at<float>(),
        .bias_gradient = bias_gradient.at<float>()};
    EXPECT_EQ(kernels_->batch_norm->backward(&backward, nullptr), 0);
    scratch.Read();
    return {.mean = mean.Read(),
            .inverse_std = inverse_std.Read(),
            .running_mean = running_mean.Read(),
            .running_variance = running_variance.Read(),
            .output = output.Read(),
            .input_gradient = input_gradient.Read(),
            .residual_gradient = masks_residual ? residual_gradient.Read() : inputs.gradient,
            .weight_gradient = weight_gradient.Read(),
            .bias_gradient = bias_gradient.Read()};
  }

  Results Run(const Case& one) const { return Run(one, InputsFor(one)); }
};

// Checks one channel against the definition. The expected gradients are computed with the ReLU mask that follows from
// the actual output. So the check fails unless the backward pass used the same mask for every element.
void CheckChannel(const Case& one, const Inputs& inputs, const Results& actual, size_t channel) {
  const auto rows = static_cast<size_t>(one.rows);
  const auto channels = static_cast<size_t>(one.channels);
  const auto at = [&](const std::vector<float>& matrix, size_t row) {
    return static_cast<double>(matrix[row * channels + channel]);
  };
  const auto n = static_cast<double>(rows);
  double mean = 0, squares = 0;
  for (size_t row = 0; row < rows; ++row) {
    mean += at(inputs.input, row) / n;
  }
  for (size_t row = 0; row < rows; ++row) {
    squares += std::pow(at(inputs.input, row) - mean, 2);
  }
  const double inverse_std = 1 / std::sqrt(squares / n + kEpsilon);
  EXPECT_NEAR(actual.mean[channel], mean, 1e-6 * std::abs(mean) + 1e-7);
  EXPECT_NEAR(actual.inverse_std[channel], inverse_std, 1e-6 * inverse_std * (3 + std::abs(mean) * inverse_std));
  EXPECT_NEAR(actual.running_mean[channel], (1 - kMomentum) * inputs.running_mean[channel] + kMomentum * mean,
              1e-6 * (1 + std::abs(mean)));
  if (rows == 1) {
    EXPECT_TRUE(std::isnan(actual.running_variance[channel]));
  } else {
    const double variance = squares / (n - 1);
    EXPECT_NEAR(actual.running_variance[channel],
                (1 - kMomentum) * inputs.running_variance[channel] + kMomentum * variance, 1e-5 * (1 + variance));
  }
  const double weight = one.affine ? inputs.weight[channel] : 1;
  const double bias = one.affine ? inputs.bias[channel] : 0;
  double sum = 0, product = 0, magnitude = 0;
  for (size_t row = 0; row < rows; ++row) {
    const double normalised = (at(inputs.input, row) - mean) * inverse_std;
    double value = normalised * weight + bias;
    const double slack = Ulp(one.format) * (std::abs(value) + std::abs(at(inputs.residual, row))) +
                         1e-6 * (std::abs(value) + std::abs(mean) * inverse_std + 4);
    value = one.adds_residual ? Rounded(value, one.format) + at(inputs.residual, row) : value;
    value = Rounded(one.relu ? std::max(value, 0.0) : value, one.format);
    ASSERT_NEAR(at(actual.output, row), value, slack) << "row " << row;
    const double passed = one.relu && at(actual.output, row) <= 0 ? 0 : at(inputs.gradient, row);
    if (one.relu && one.adds_residual) {
      ASSERT_EQ(at(actual.residual_gradient, row), passed) << "row " << row;
    }
    sum += passed;
    product += passed * normalised;
    magnitude += std::abs(passed) * (1 + std::abs(normalised));
  }
  EXPECT_NEAR(actual.bias_gradient[channel], sum, 1e-6 * magnitude);
  EXPECT_NEAR(actual.weight_gradient[channel], product, 1e-5 * magnitude * (1 + std::abs(mean)));
  for (size_t row = 0; row < rows; ++row) {
    const double normalised = (at(inputs.input, row) - mean) * inverse_std;
    const double passed = one.relu && at(actual.output, row) <= 0 ? 0 : at(inputs.gradient, row);
    const double expected = (passed - sum / n - normalised * product / n) * inverse_std * weight;
    const double size =
        (std::abs(passed) + (1 + std::abs(normalised)) * magnitude / n) * inverse_std * std::abs(weight);
    ASSERT_NEAR(at(actual.input_gradient, row), expected,
                Ulp(one.format) * std::abs(expected) + 1e-5 * (1 + std::abs(mean)) * size)
        << "row " << row;
  }
}

void Check(const Case& one, const Inputs& inputs, const Results& actual) {
  for (int64_t channel = 0; channel < one.channels && !testing::Test::HasFailure(); ++channel) {
    SCOPED_TRACE(one.Name() + " channel " + std::to_string(channel));
    CheckChannel(one, inputs, actual, static_cast<size_t>(channel));
  }
}

TEST_F(CudaBatchNormKernelsTest, EqualPlainLoops) {
  for (const auto& [rows, channels] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 3}, {2, 3}, {1, 8}, {2, 64}, {5, 16}, {37, 8}, {130, 20}, {67, 72}, {300, 64}}) {
    for (const Format format : kFormats) {
      for (const int what : {0, 1, 2, 3}) {
        const Case one = {.rows = rows,
                          .channels = channels,
                          .format = format,
                          .relu = (what & 1) != 0,
                          .adds_residual = (what & 2) != 0};
        Check(one, InputsFor(one), Run(one));
      }
    }
  }
}

TEST_F(CudaBatchNormKernelsTest, EqualPlainLoopsOverManyRowsAndChannels) {
  const Case cases[] = {
      {.rows = 100'000, .channels = 3, .format = Format::kBFloat16, .relu = true, .adds_residual = true},
      {.rows = 100'001, .channels = 3, .format = Format::kFloat32, .relu = true},
      {.rows = 20'001, .channels = 64, .format = Format::kFloat16, .relu = true, .adds_residual = true},
      {.rows = 3, .channels = 2048, .format = Format::kBFloat16, .relu = true, .adds_residual = true},
      {.rows = 9'000, .channels = 512, .format = Format::kBFloat16, .relu = true}};
  for (const Case& one : cases) {
    Check(one, InputsFor(one), Run(one));
  }
}

TEST_F(CudaBatchNormKernelsTest, EqualPlainLoopsWithoutAlignmentAndWithoutWeights) {
  for (const Format format : kFormats) {
    const Case misaligned = {
        .rows = 50, .channels = 16, .format = format, .relu = true, .adds_residual = true, .misaligned_by = 4};
    const Case plain = {.rows = 50, .channels = 16, .format = format, .relu = true, .affine = false};
    for (const Case& one : {misaligned, plain}) {
      Check(one, InputsFor(one), Run(one));
    }
  }
}

void ExpectSameBits(const Results& first, const Results& second) {
  EXPECT_EQ(first.mean, second.mean);
  EXPECT_EQ(first.inverse_std, second.inverse_std);
  EXPECT_EQ(first.output, second.output);
  EXPECT_EQ(first.input_gradient, second.input_gradient);
  EXPECT_EQ(first.residual_gradient, second.residual_gradient);
  EXPECT_EQ(first.weight_gradient, second.weight_gradient);
  EXPECT_EQ(first.bias_gradient, second.bias_gradient);
}

TEST_F(CudaBatchNormKernelsTest, TheSameInputGivesTheSameBits) {
  const Case one = {.rows = 3000, .channels = 24, .format = Format::kBFloat16, .relu = true, .adds_residual = true};
  ExpectSameBits(Run(one), Run(one));
}

TEST_F(CudaBatchNormKernelsTest, TwoGradientsGiveTheBitsOfTheirRoundedSum) {
  for (const Format format : kFormats) {
    for (const auto& [rows, channels, misaligned_by] : std::vector<std::tuple<int64_t, int64_t, size_t>>{
             {1, 8, 0}, {2, 64, 0}, {37, 13, 0}, {130, 72, 0}, {50, 16, 4}, {3000, 64, 0}}) {
      const Case one = {.rows = rows,
                        .channels = channels,
                        .format = format,
                        .relu = true,
                        .adds_residual = true,
                        .misaligned_by = misaligned_by};
      SCOPED_TRACE(one.Name());
      Inputs both = InputsFor(one);
      both.second_gradient = Matrix(8, one);
      Inputs sum = both;
      sum.second_gradient.clear();
      for (size_t i = 0; i < one.Elements(); ++i) {
        sum.gradient[i] = static_cast<float>(Rounded(both.gradient[i] + both.second_gradient[i], format));
      }
      ExpectSameBits(Run(one, both), Run(one, sum));
    }
  }
}

// fp16 holds no number above 65504, so this sum is infinite. bf16 and fp32 hold it.
TEST_F(CudaBatchNormKernelsTest, ASumOfTwoGradientsOverflowsLikeTheFormat) {
  for (const Format format : kFormats) {
    const Case one = {.rows = 20, .channels = 8, .format = format, .relu = true, .adds_residual = true};
    Inputs inputs = InputsFor(one);
    inputs.second_gradient = inputs.gradient;
    inputs.residual[8 * 4 + 1] = 1024;  // ReLU passes the gradient of this element.
    inputs.gradient[8 * 4 + 1] = inputs.second_gradient[8 * 4 + 1] = 0x1p15f;
    const Results results = Run(one, inputs);
    EXPECT_EQ(results.residual_gradient[8 * 4 + 1], format == Format::kFloat16 ? kInf : 0x1p16f) << one.Name();
  }
}

// The first number of each channel is an outlier. A thread of the kernel subtracts the first number that it reads from
// all its numbers before it sums them, so one thread subtracts the outlier.
TEST_F(CudaBatchNormKernelsTest, AnOutlierInFrontCostsNoDigits) {
  const Case one = {.rows = 4000, .channels = 8};
  Inputs inputs = InputsFor(one);
  std::fill_n(inputs.input.begin(), 8, 1000.0f);
  Check(one, inputs, Run(one, inputs));
}

TEST_F(CudaBatchNormKernelsTest, NonFiniteNumbersSpreadInTheirChannelOnly) {
  for (const Format format : kFormats) {
    for (const float number : {kNan, kInf, -kInf}) {
      const Case one = {.rows = 40, .channels = 8, .format = format, .relu = true};
      Inputs inputs = InputsFor(one);
      inputs.input[8 * 7 + 2] = number;
      const Results results = Run(one, inputs);
      for (size_t i = 0; i < one.Elements(); ++i) {
        EXPECT_EQ(std::isnan(results.output[i]), i % 8 == 2) << one.Name() << " " << number << " " << i;
        EXPECT_EQ(std::isnan(results.input_gradient[i]), i % 8 == 2) << one.Name() << " " << number << " " << i;
      }
      EXPECT_TRUE(std::isnan(results.weight_gradient[2]));
      EXPECT_FALSE(std::isfinite(results.running_mean[2]));
      EXPECT_TRUE(std::isfinite(results.running_mean[1]));
    }
  }
}

TEST_F(CudaBatchNormKernelsTest, ANonFiniteGradientReachesAllGradientsOfItsChannel) {
  const Case one = {.rows = 40, .channels = 8, .format = Format::kFloat16, .relu = true, .affine = false};
  Inputs inputs = InputsFor(one);
  inputs.input[8 * 3 + 5] = 4;  // The largest number of its channel, so ReLU passes its gradient.
  inputs.gradient[8 * 3 + 5] = kInf;
  const Results results = Run(one, inputs);
  EXPECT_EQ(results.bias_gradient[5], kInf);
  EXPECT_FALSE(std::isfinite(results.weight_gradient[5]));
  EXPECT_TRUE(std::isfinite(results.weight_gradient[4]));
  for (size_t row = 0; row < 40; ++row) {
    EXPECT_FALSE(std::isfinite(results.input_gradient[8 * row + 5]));
  }
}

// PyTorch's ReLU returns NaN for NaN and passes its gradient.
TEST_F(CudaBatchNormKernelsTest, ReluPassesNanAndItsGradient) {
  const Case one = {.rows = 20, .channels = 8, .format = Format::kBFloat16, .relu = true, .adds_residual = true};
  Inputs inputs = InputsFor(one);
  inputs.residual[8 * 4 + 1] = kNan;
  inputs.residual[8 * 5 + 1] = -kInf;
  const Results results = Run(one, inputs);
  EXPECT_TRUE(std::isnan(results.output[8 * 4 + 1]));
  EXPECT_EQ(results.residual_gradient[8 * 4 + 1], inputs.gradient[8 * 4 + 1]);
  EXPECT_EQ(results.output[8 * 5 + 1], 0);
  EXPECT_EQ(results.residual_gradient[8 * 5 + 1], 0);
}

// Weight and bias are 0, so the normalised input is 0, and only the residual enters the ReLU: 0, or the smallest
// positive number of the format. The ReLU must block the gradient of the first and pass the gradient of the second.
TEST_F(CudaBatchNormKernelsTest, ReluBlocksZeroAndPassesTheSmallestNumber) {
  for (const Format format : kFormats) {
    const Case one = {.rows = 30, .channels = 11, .format = format, .relu = true, .adds_residual = true};
    Inputs inputs = InputsFor(one);
    std::fill(inputs.weight.begin(), inputs.weight.end(), 0.0f);
    std::fill(inputs.bias.begin(), inputs.bias.end(), 0.0f);
    const float smallest = format == Format::kFloat32 ? 0x1p-149f : format == Format::kBFloat16 ? 0x1p-133f : 0x1p-24f;
    for (size_t i = 0; i < one.Elements(); ++i) {
      inputs.residual[i] = i % 3 == 0 ? smallest : 0;
    }
    const Results results = Run(one, inputs);
    for (size_t i = 0; i < one.Elements(); ++i) {
      EXPECT_EQ(results.output[i], inputs.residual[i]) << one.Name() << " " << i;
      EXPECT_EQ(results.residual_gradient[i], i % 3 == 0 ? inputs.gradient[i] : 0) << one.Name() << " " << i;
    }
  }
}

// If the variance overflows fp32, PyTorch's output is the bias. The kernel's output must be the bias, too.
TEST_F(CudaBatchNormKernelsTest, IfTheVarianceOverflowsTheResultIsTheBias) {
  const Case one = {.rows = 64, .channels = 8, .format = Format::kBFloat16};
  Inputs inputs = InputsFor(one);
  for (float& number : inputs.input) {
    number = static_cast<float>(Rounded(number * 0x1p90f, one.format));
  }
  const Results results = Run(one, inputs);
  for (size_t i = 0; i < one.Elements(); ++i) {
    EXPECT_EQ(results.output[i], Rounded(inputs.bias[i % 8], one.format));
  }
}

// If an fp16 output is rounded to 0, its gradient is blocked. A separate ReLU op, which reads the rounded output, would
// block the gradient, too.
TEST_F(CudaBatchNormKernelsTest, AnOutputThatRoundsToZeroBlocksItsGradient) {
  const Case one = {.rows = 16, .channels = 8, .format = Format::kFloat16, .relu = true};
  Inputs inputs = InputsFor(one);
  std::fill(inputs.weight.begin(), inputs.weight.end(), 0.0f);
  std::fill(inputs.bias.begin(), inputs.bias.begin() + 4, 0x1p-25f);  // Halfway to the smallest number.
  std::fill(inputs.bias.begin() + 4, inputs.bias.end(), 0x1.1p-25f);
  const Results results = Run(one, inputs);
  for (size_t channel = 0; channel < 8; ++channel) {
    EXPECT_EQ(results.output[channel], channel < 4 ? 0.0f : 0x1p-24f);
    EXPECT_EQ(results.bias_gradient[channel] == 0, channel < 4);
  }
}

}  // namespace
}  // namespace ampd::kernels
