// Tests that the CUDA kernels for FP8 give the same bits as LibTorch's CPU ops: first the kernels' arithmetic functions
// alone, then the whole kernels, compiled for an emulation of CUDA. Also tests the layout of scales that LibTorch
// requires for products with one scale per block.
#include "worker/amp/fp8/fp8_quantizer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ATen/ops/empty.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/full.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/str_format.h"
#include "base/random.h"
#include "tests/worker/kernels/kernels_under_test.h"

namespace ampd::amp {
namespace {

using precision::Fp8Recipe;

constexpr at::ScalarType kFp8Formats[] = {at::kFloat8_e4m3fn, at::kFloat8_e5m2};
constexpr float kInf = std::numeric_limits<float>::infinity();

at::Tensor Codes(const at::Tensor& in_fp8) { return in_fp8.view(at::kByte); }

// Returns fp32 numbers of every magnitude, including midpoints between neighbouring FP8 numbers.
at::Tensor AllSizes() {
  SeededRandom random(1);
  at::Tensor numbers = at::empty({1 << 20});
  auto* const data = numbers.mutable_data_ptr<float>();
  for (int64_t i = 0; i < numbers.numel(); ++i) {
    const auto bits = static_cast<uint32_t>(random.Next());
    const auto number = std::bit_cast<float>(i % 2 == 0 ? bits : bits & 0xfff80000);
    data[i] = std::isnan(number) ? 0.0F : number;
  }
  return numbers;
}

TEST(Fp8Math, CodesAreLibTorchs) {
  const at::Tensor numbers = AllSizes();
  for (const at::ScalarType format : kFp8Formats) {
    const double largest = LargestOf(format);
    const at::Tensor expected = Codes(numbers.clamp(-largest, largest).to(format));
    const auto ours = format == at::kFloat8_e5m2 ? kernels::Fp8Format::kE5M2 : kernels::Fp8Format::kE4M3;
    int64_t num_wrong = 0;
    int64_t num_subnormal = 0;
    for (int64_t i = 0; i < numbers.numel(); ++i) {
      const uint8_t code = kernels::ToFp8(numbers.const_data_ptr<float>()[i], ours);
      num_wrong += code != expected.const_data_ptr<uint8_t>()[i];
      num_subnormal += (code & 0x7f) > 0 && (code & 0x7f) < (ours == kernels::Fp8Format::kE5M2 ? 4 : 8);
    }
    EXPECT_EQ(num_wrong, 0);
    EXPECT_GT(num_subnormal, 1000);
    EXPECT_EQ(kernels::ToFp8(std::nanf(""), ours), 0x7f);
  }
}

// Compares the scales that the kernels' function and LibTorch's ops compute, bit for bit.
void ExpectSameScales(const at::Tensor& amaxes, at::ScalarType format, const Fp8Recipe& recipe) {
  const at::Tensor expected = ScaleFor(amaxes, format, recipe);
  const kernels::Fp8Scaling scaling = {.largest = static_cast<float>(std::ldexp(LargestOf(format), -recipe.margin)),
                                       .smallest_amax = static_cast<float>(recipe.amax_epsilon),
                                       .power_of_two = recipe.power_of_two_scales};
  at::Tensor ours = at::empty_like(amaxes);
  for (int64_t i = 0; i < amaxes.numel(); ++i) {
    ours.mutable_data_ptr<float>()[i] = kernels::Fp8Scale(amaxes.const_data_ptr<float>()[i], scaling);
  }
  EXPECT_TRUE(ours.isclose(expected, 0, 0, /*equal_nan=*/true).all().item<bool>());
  EXPECT_TRUE(at::equal(ours.isnan(), amaxes.isfinite().logical_not()));
  EXPECT_FALSE(ours.isinf().any().item<bool>());
  EXPECT_FALSE(ours.reciprocal().isinf().any().item<bool>());
}

TEST(Fp8Math, ScalesAreTheOps) {
  const at::Tensor amaxes = AllSizes().narrow(0, 0, 1 << 17).abs();
  amaxes[0] = kInf;
  amaxes[1] = std::nanf("");
  amaxes[2] = 0;
  for (const at::ScalarType format : kFp8Formats) {
    for (const double epsilon : {1e-12, 1e-45, 1e-38, 1.0}) {
      for (const bool power_of_two : {true, false}) {
        for (const int margin : {0, 3, 16}) {
          SCOPED_TRACE(absl::StrFormat("epsilon %g, powers of two %d, margin %d", epsilon, power_of_two, margin));
          Fp8Recipe recipe;
          recipe.amax_epsilon = epsilon;
          recipe.power_of_two_scales = power_of_two;
          recipe.margin = margin;
          ExpectSameScales(amaxes, format, recipe);
        }
      }
    }
  }
}

struct Quantizers {
  explicit Quantizers(const Fp8Recipe& recipe) {
    cpu = Fp8Quantizer::Make(recipe, {});
    ComputeDevice device;
    std::string why;
    device.cuda_kernels = kernels::KernelsUnderTest(&why);
    cuda = Fp8Quantizer::Make(recipe, device);
  }
  std::unique_ptr<Fp8Quantizer> cpu;
  std::unique_ptr<Fp8Quantizer> cuda;
};

void ExpectSame(const Fp8Matrix& cuda, const Fp8Matrix& cpu) {
  EXPECT_TRUE(at::equal(Codes(cuda.data), Codes(cpu.data)));
  EXPECT_TRUE(cuda.inverse_scale.isclose(cpu.inverse_scale, 0, 0, /*equal_nan=*/true).all().item<bool>());
  EXPECT_EQ(cuda.inverse_scale.sizes(), cpu.inverse_scale.sizes());
  EXPECT_EQ(cuda.block.rows, cpu.block.rows);
  EXPECT_EQ(cuda.block.columns, cpu.block.columns);
}

// A matrix (200, 136) whose rows and columns have numbers of very different magnitudes.
at::Tensor Uneven(at::ScalarType dtype) {
  return AllSizes()
      .narrow(0, 0, int64_t{200} * 136)
      .nan_to_num(0, 1, -1)
      .clamp(-1e4, 1e4)
      .reshape({200, 136})
      .to(dtype);
}

// The largest number of a format, divided by a tiny epsilon, is infinite in fp32. Divided by a huge one and by
// 2^margin, it is too small for a power of two that is a normal number.
TEST(Fp8Quantizer, ZerosStayZerosWithEveryEpsilon) {
  const at::Tensor zeros = at::zeros({130, 40});
  for (const at::ScalarType format : kFp8Formats) {
    for (const double epsilon : {1e-46, 1e-45, 1e-40, 1e-38, 1e-35, 1e-12, 1.0, 3e38}) {
      for (const int margin : {0, 16}) {
        Fp8Recipe recipe;
        recipe.amax_epsilon = epsilon;
        recipe.margin = margin;
        const Quantizers quantizers(recipe);
        for (const Fp8Grain grain : {Fp8Grain::kTensor, Fp8Grain::kRows, Fp8Grain::kSquares}) {
          SCOPED_TRACE(absl::StrFormat("epsilon %g, margin %d", epsilon, margin));
          const Fp8Order order = {
              .grain = grain, .format = format, .plain = true, .transposed = true, .known_scale = {}};
          const Fp8Forms cpu = quantizers.cpu->Quantize(zeros, order), cuda = quantizers.cuda->Quantize(zeros, order);
          EXPECT_TRUE(at::equal(cpu.plain.Widened(), zeros));
          EXPECT_TRUE(at::equal(cpu.transposed.Widened(), zeros.t()));
          ExpectSame(cuda.plain, cpu.plain);
          ExpectSame(cuda.transposed, cpu.transposed);
        }
      }
    }
  }
}

TEST(Fp8Quantizer, TheKernelsGiveTheOpsBits) {
  for (const bool power_of_two : {true, false}) {
    Fp8Recipe recipe;
    recipe.power_of_two_scales = power_of_two;
    recipe.margin = power_of_two ? 0 : 1;
    const Quantizers quantizers(recipe);
    for (const Fp8Grain grain : {Fp8Grain::kTensor, Fp8Grain::kRows, Fp8Grain::kSquares}) {
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
        const at::Tensor matrix = dtype == at::kFloat ? Uneven(dtype).t() : Uneven(dtype);
        const Fp8Order order = {.grain = grain,
                                .format = dtype == at::kHalf ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn,
                                .plain = true,
                                .transposed = true,
                                .known_scale = {}};
        const Fp8Forms cpu = quantizers.cpu->Quantize(matrix, order);
        const Fp8Forms cuda = quantizers.cuda->Quantize(matrix, order);
        ExpectSame(cuda.plain, cpu.plain);
        ExpectSame(cuda.transposed, cpu.transposed);
        EXPECT_EQ(cuda.amax.defined(), grain == Fp8Grain::kTensor);
        EXPECT_TRUE(!cuda.amax.defined() || at::equal(cuda.amax, cpu.amax));
        EXPECT_TRUE(grain == Fp8Grain::kRows || at::equal(Codes(cuda.plain.data).t(), Codes(cuda.transposed.data)));
      }
    }
  }
}

// The address from which a kernel of SpyingKernels() read last.
const void*& LastSource() {
  static const void* source = nullptr;
  return source;
}

// The kernels under test. They also store in LastSource() the address from which they read.
const kernels::CudaKernels* SpyingKernels() {
  static const kernels::CudaFp8Kernels* const kernels = [] {
    std::string why;
    return kernels::KernelsUnderTest(&why)->fp8;
  }();
  static const kernels::CudaFp8Kernels spying = [] {
    kernels::CudaFp8Kernels made;
    made.quantize_tensor = [](const kernels::CudaFp8Matrix* matrix, auto... others) {
      LastSource() = matrix->source;
      return kernels->quantize_tensor(matrix, others...);
    };
    made.quantize_rows = [](const kernels::CudaFp8Matrix* matrix, void* stream) {
      LastSource() = matrix->source;
      return kernels->quantize_rows(matrix, stream);
    };
    made.quantize_squares = [](const kernels::CudaFp8Matrix* matrix, void* stream) {
      LastSource() = matrix->source;
      return kernels->quantize_squares(matrix, stream);
    };
    return made;
  }();
  static const kernels::CudaKernels table = [] {
    std::string why;
    kernels::CudaKernels made = *kernels::KernelsUnderTest(&why);
    made.fp8 = &spying;
    return made;
  }();
  return &table;
}

TEST(Fp8Quantizer, ATransposedViewIsReadWhereItIs) {
  ComputeDevice device;
  device.cuda_kernels = SpyingKernels();
  const auto cuda = Fp8Quantizer::Make({}, device);
  const auto cpu = Fp8Quantizer::Make({}, {});
  for (const Fp8Grain grain : {Fp8Grain::kTensor, Fp8Grain::kRows, Fp8Grain::kSquares}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const at::Tensor stored = Uneven(dtype);
      for (const auto& [plain, transposed] : {std::pair(true, true), std::pair(true, false), std::pair(false, true)}) {
        const Fp8Order order = {.grain = grain, .plain = plain, .transposed = transposed, .known_scale = {}};
        const Fp8Forms made = cuda->Quantize(stored.t(), order);
        const Fp8Forms expected = cpu->Quantize(stored.t().contiguous(), order);
        EXPECT_EQ(LastSource(), stored.const_data_ptr());
        EXPECT_EQ(made.plain.data.defined(), plain);
        EXPECT_EQ(made.transposed.data.defined(), transposed);
        if (plain) {
          ExpectSame(made.plain, expected.plain);
        }
        if (transposed) {
          ExpectSame(made.transposed, expected.transposed);
        }
      }
    }
  }
  const at::Tensor gaps = Uneven(at::kFloat).slice(1, 0, 100);
  ExpectSame(cuda->Quantize(gaps, {.plain = true}).plain, cpu->Quantize(gaps, {.plain = true}).plain);
  EXPECT_NE(LastSource(), gaps.const_data_ptr()) << "a matrix with gaps is copied";
}

TEST(Fp8Quantizer, AmaxesBetweenBeginAndEndArePartsOfOneTensor) {
  const Quantizers quantizers({});
  const Fp8Order order = {.plain = true};
  for (int step = 0; step < 2; ++step) {
    quantizers.cuda->BeginPasses();
    std::vector<at::Tensor> amaxes;
    for (int i = 1; i <= 300; ++i) {
      amaxes.push_back(quantizers.cuda->Quantize(at::full({2, 2}, 1.0F / static_cast<float>(i)), order).amax);
    }
    quantizers.cuda->EndPasses();
    for (int i = 1; i <= 300; ++i) {
      EXPECT_EQ(amaxes[static_cast<size_t>(i) - 1].item<float>(), 1.0F / static_cast<float>(i));
    }
    EXPECT_EQ(amaxes.front().storage().data(), amaxes[200].storage().data());
    EXPECT_EQ(amaxes.front().storage().data() == amaxes.back().storage().data(), step == 1)
        << "a step has as many cells as the last one needed";
  }
  const at::Tensor alone = quantizers.cuda->Quantize(at::full({2, 2}, 3.0F), order).amax;
  EXPECT_EQ(alone.item<float>(), 3);
  EXPECT_EQ(alone.storage().nbytes(), sizeof(float));
}

TEST(Fp8Quantizer, OnlyWhatIsAskedForIsMade) {
  const Quantizers quantizers({});
  for (Fp8Quantizer* quantizer : {quantizers.cpu.get(), quantizers.cuda.get()}) {
    for (const Fp8Grain grain : {Fp8Grain::kTensor, Fp8Grain::kRows, Fp8Grain::kSquares}) {
      const Fp8Forms forms = quantizer->Quantize(Uneven(at::kBFloat16), {.grain = grain, .transposed = true});
      EXPECT_FALSE(forms.plain.data.defined());
      EXPECT_EQ(forms.transposed.data.sizes(), at::IntArrayRef({136, 200}));
    }
  }
}

TEST(Fp8Quantizer, AKnownScaleIsTakenAndTheAmaxTold) {
  const Quantizers quantizers({});
  for (const float known : {0.0F, 0.5F}) {
    const Fp8Order order = {.plain = true, .transposed = true, .known_scale = at::full({1}, known)};
    const Fp8Forms cpu = quantizers.cpu->Quantize(Uneven(at::kBFloat16), order);
    const Fp8Forms cuda = quantizers.cuda->Quantize(Uneven(at::kBFloat16), order);
    ExpectSame(cuda.plain, cpu.plain);
    ExpectSame(cuda.transposed, cpu.transposed);
    EXPECT_TRUE(at::equal(cuda.amax, cpu.amax));
    EXPECT_EQ(cuda.plain.inverse_scale.item<float>() == 2, known > 0);
  }
}

TEST(Fp8Quantizer, AKnownAmaxGivesTheSameBitsWithOneLaunchFewer) {
  const Quantizers quantizers({});
  for (const float largest : {3.0F, kInf, std::numeric_limits<float>::quiet_NaN()}) {
    at::Tensor matrix = Uneven(at::kBFloat16);
    matrix[150][130] = largest;
    for (const at::Tensor& known_scale : {at::Tensor(), at::full({1}, 0.0F), at::full({1}, 0.5F)}) {
      Fp8Order order = {.plain = true, .transposed = true, .known_scale = known_scale};
      const Fp8Forms cpu = quantizers.cpu->Quantize(matrix, order);
      Fp8Forms cuda;
      const int64_t num_launches = kernels::RunBackwards([&] { cuda = quantizers.cuda->Quantize(matrix, order); });
      order.known_amax = cuda.amax.clone();
      Fp8Forms cuda_knowing;
      EXPECT_EQ(kernels::RunBackwards([&] { cuda_knowing = quantizers.cuda->Quantize(matrix, order); }),
                num_launches - 1);
      ExpectSame(cuda_knowing.plain, cuda.plain);
      ExpectSame(cuda_knowing.transposed, cuda.transposed);
      EXPECT_TRUE(at::equal(cuda_knowing.amax.view(at::kInt), cuda.amax.view(at::kInt)));
      const Fp8Forms cpu_knowing = quantizers.cpu->Quantize(matrix, order);
      ExpectSame(cpu_knowing.plain, cpu.plain);
      ExpectSame(cpu_knowing.transposed, cpu.transposed);
    }
  }
}

// Twice the amax halves the scale, so the matrix itself is not searched for its amax.
TEST(Fp8Quantizer, AKnownAmaxIsNotLookedForInTheMatrix) {
  const Quantizers quantizers({});
  const at::Tensor matrix = at::full({16, 16}, 1.0F);
  for (Fp8Quantizer* quantizer : {quantizers.cpu.get(), quantizers.cuda.get()}) {
    const Fp8Order once = {.plain = true, .known_amax = at::full({1, 1}, 1.0F)};
    const Fp8Order twice = {.plain = true, .known_amax = at::full({1, 1}, 2.0F)};
    EXPECT_EQ(quantizer->Quantize(matrix, twice).plain.inverse_scale.item<float>(),
              2 * quantizer->Quantize(matrix, once).plain.inverse_scale.item<float>());
    EXPECT_EQ(quantizer->Quantize(matrix, twice).amax.item<float>(), 2);
  }
}

TEST(Fp8Quantizer, ANumberThatIsNotFiniteLeavesNothingBesideIt) {
  const Quantizers quantizers({});
  at::Tensor matrix = Uneven(at::kBFloat16);
  matrix[150][130] = kInf;
  for (const Fp8Grain grain : {Fp8Grain::kTensor, Fp8Grain::kRows, Fp8Grain::kSquares}) {
    const Fp8Order order = {.grain = grain, .plain = true, .transposed = true};
    const Fp8Forms cpu = quantizers.cpu->Quantize(matrix, order);
    const Fp8Forms cuda = quantizers.cuda->Quantize(matrix, order);
    ExpectSame(cuda.plain, cpu.plain);
    ExpectSame(cuda.transposed, cpu.transposed);
    EXPECT_GT(cuda.plain.Widened().isnan().sum().item<int64_t>(), 0);
  }
  const Fp8Order known = {.plain = true, .known_scale = at::full({1}, 0.5F)};
  for (Fp8Quantizer* quantizer : {quantizers.cpu.get(), quantizers.cuda.get()}) {
    EXPECT_TRUE(quantizer->Quantize(matrix, known).plain.Widened().isnan().all().item<bool>());
  }
}

// Checks the shape and the order in memory of a matrix's scales, which LibTorch 2.11 checks and cuBLASLt reads. The
// order is column-major. For a matrix (R, K), the shapes are:
//   * blocks of 1x128: (N, K / 128), where N is the second argument of ScalesForBlocks, at least R;
//   * blocks of 128x128: (K / 128 padded to a multiple of 4, R / 128 rounded up).
TEST(ScalesForBlocks, LieAsLibTorchDemands) {
  const Quantizers quantizers({});
  const at::Tensor matrix = AllSizes().narrow(0, 0, int64_t{150} * 640).clamp(-1e4, 1e4).reshape({150, 640});
  for (Fp8Quantizer* quantizer : {quantizers.cpu.get(), quantizers.cuda.get()}) {
    const Fp8Matrix rows = quantizer->Quantize(matrix, {.grain = Fp8Grain::kRows, .plain = true}).plain;
    const at::Tensor of_rows = ScalesForBlocks(rows, 160);
    EXPECT_EQ(of_rows.sizes(), at::IntArrayRef({160, 5}));
    EXPECT_EQ(of_rows.strides(), at::IntArrayRef({1, 160}));
    EXPECT_TRUE(at::equal(of_rows.narrow(0, 0, 150), rows.inverse_scale));
    const Fp8Matrix squares = quantizer->Quantize(matrix, {.grain = Fp8Grain::kSquares, .plain = true}).plain;
    const at::Tensor of_squares = ScalesForBlocks(squares, 150);
    EXPECT_EQ(of_squares.sizes(), at::IntArrayRef({8, 2}));
    EXPECT_EQ(of_squares.strides(), at::IntArrayRef({1, 8}));
    EXPECT_TRUE(at::equal(of_squares.narrow(0, 0, 5), squares.inverse_scale.t()));
    EXPECT_TRUE(of_squares.narrow(0, 5, 3).eq(0).all().item<bool>());
  }
}

}  // namespace
}  // namespace ampd::amp
