// Compares the CUDA kernels for FP8 with the definition, one number at a time. The rounding of a number is compared
// with LibTorch in worker_amp_fp8_quantizer_test. This file is compiled twice: over the emulated CUDA of this folder,
// and over the real CUDA.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/kernels/cuda_fixture.h"
#include "tests/worker/kernels/device_bytes.h"
#include "worker/kernels/tensor_row.h"

namespace ampd::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

enum class Grain { kTensor, kRows, kSquares };

struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  Format source_format = Format::kFloat32;
  Fp8Format format = Fp8Format::kE4M3;
  Fp8Scaling scaling;
  size_t misaligned_by = 0;  // Offset of the source from its alignment, in bytes.
  std::vector<float> numbers;
};

Matrix RandomMatrix(uint64_t seed, int64_t rows, int64_t columns, Format source_format, Fp8Format format) {
  Matrix matrix{.rows = rows, .columns = columns, .source_format = source_format, .format = format};
  matrix.scaling.largest = format == Fp8Format::kE4M3 ? 448.0f : 57344.0f;
  matrix.numbers = RandomNumbers(seed, rows * columns);
  for (float& number : matrix.numbers) {
    number = source_format == Format::kBFloat16  ? FromBFloat16(ToBFloat16(number))
             : source_format == Format::kFloat16 ? FromFloat16(ToFloat16(number))
                                                 : number;
  }
  return matrix;
}

// Returns the scale of each number. All numbers of a block of `block_rows` x `block_columns` share a scale.
std::vector<float> Scales(const Matrix& matrix, int64_t block_rows, int64_t block_columns) {
  std::vector<float> scales(matrix.numbers.size());
  for (int64_t top = 0; top < matrix.rows; top += block_rows) {
    for (int64_t left = 0; left < matrix.columns; left += block_columns) {
      const auto for_each = [&](auto body) {
        for (int64_t r = top; r < std::min(top + block_rows, matrix.rows); ++r) {
          for (int64_t c = left; c < std::min(left + block_columns, matrix.columns); ++c) {
            body(static_cast<size_t>(r * matrix.columns + c));
          }
        }
      };
      float amax = 0;
      for_each([&](size_t i) {
        const float magnitude = std::abs(matrix.numbers[i]);
        amax = std::isnan(magnitude) || magnitude > amax ? magnitude : amax;
      });
      for_each([&](size_t i) { scales[i] = Fp8Scale(amax, matrix.scaling); });
    }
  }
  return scales;
}

bool SameNumber(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

// One output of a kernel, with guards around the memory that the kernel may write.
struct Output {
  Output(size_t num_codes, size_t num_scales)
      : codes(Bytes(num_codes + 2 * kGuardBytes, kGuard)),
        scales(Bytes(num_scales * sizeof(float) + 2 * kGuardBytes, kGuard)) {}

  CudaFp8Output Place() const {
    return {codes.as<uint8_t>() + kGuardBytes, reinterpret_cast<float*>(scales.as<std::byte>() + kGuardBytes)};
  }

  template <typename T>
  static std::vector<T> Inner(const DeviceBytes& bytes) {
    const Bytes all = bytes.Read();
    const auto guarded = [](std::byte byte) { return byte == kGuard; };
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kGuardBytes, guarded)) << "written before it";
    EXPECT_TRUE(std::all_of(all.end() - kGuardBytes, all.end(), guarded)) << "written behind it";
    return ValuesFrom<T>(Bytes(all.begin() + kGuardBytes, all.end() - kGuardBytes));
  }

  DeviceBytes codes;
  DeviceBytes scales;
};

size_t NumScales(Grain grain, int64_t rows, int64_t columns) {
  const int64_t down = grain == Grain::kRows ? rows : (rows + kFp8Block - 1) / kFp8Block;
  const int64_t across = (columns + kFp8Block - 1) / kFp8Block;
  return grain == Grain::kTensor ? 1 : static_cast<size_t>(down * across);
}

// Returns the index of the inverse scale for element (r, c) of an output (rows, columns).
size_t ScaleAt(Grain grain, int64_t rows, int64_t columns, int64_t r, int64_t c) {
  const int64_t across = (columns + kFp8Block - 1) / kFp8Block;
  switch (grain) {
    case Grain::kTensor:
      return 0;
    case Grain::kRows:
      return static_cast<size_t>(c / kFp8Block * rows + r);
    case Grain::kSquares:
      return static_cast<size_t>(r / kFp8Block * across + c / kFp8Block);
  }
  return 0;
}

class CudaFp8KernelsTest : public CudaTest {
 protected:
  // A kernel's outputs for a matrix.
  struct Made {
    std::vector<uint8_t> plain, transposed;
    std::vector<float> plain_inverse, transposed_inverse;
    float amax = 0;  // Set by the kernel for kTensor only.
  };

  Made Run(const Matrix& matrix, Grain grain, const float* known_scale = nullptr, const float* known_amax = nullptr) {
    const DeviceBytes source(Stored(matrix.numbers, matrix.source_format), matrix.misaligned_by);
    const Output plain(matrix.numbers.size(), NumScales(grain, matrix.rows, matrix.columns));
    const Output transposed(matrix.numbers.size(), NumScales(grain, matrix.columns, matrix.rows));
    const CudaFp8Matrix pass = {.source = source.as<void>(),
                                .source_format = matrix.source_format,
                                .rows = matrix.rows,
                                .columns = matrix.columns,
                                .format = matrix.format,
                                .scaling = matrix.scaling,
                                .plain = plain.Place(),
                                .transposed = transposed.Place()};
    const DeviceBytes amax = DeviceBytes::Of(known_amax == nullptr ? 0.0f : *known_amax);
    const DeviceBytes known = DeviceBytes::Of(known_scale == nullptr ? 0.0f : *known_scale);
    if (grain == Grain::kTensor) {
      const float* scale = known_scale == nullptr ? nullptr : known.as<float>();
      EXPECT_EQ(kernels_->fp8->quantize_tensor(&pass, scale, amax.as<float>(), known_amax != nullptr, nullptr), 0);
    } else {
      const auto quantize = grain == Grain::kRows ? kernels_->fp8->quantize_rows : kernels_->fp8->quantize_squares;
      EXPECT_EQ(quantize(&pass, nullptr), 0);
    }
    return {Output::Inner<uint8_t>(plain.codes), Output::Inner<uint8_t>(transposed.codes),
            Output::Inner<float>(plain.scales), Output::Inner<float>(transposed.scales), amax.ReadAs<float>()[0]};
  }

  static void ExpectForm(const Matrix& matrix, const std::vector<float>& scales, const Made& made, Grain grain,
                         bool transposed) {
    const int64_t rows = transposed ? matrix.columns : matrix.rows;
    const int64_t columns = transposed ? matrix.rows : matrix.columns;
    const std::vector<uint8_t>& codes = transposed ? made.transposed : made.plain;
    const std::vector<float>& inverse = transposed ? made.transposed_inverse : made.plain_inverse;
    int64_t num_wrong = 0;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const auto i = static_cast<size_t>(transposed ? c * matrix.columns + r : r * matrix.columns + c);
        const uint8_t expected = ToFp8(matrix.numbers[i] * scales[i], matrix.format);
        num_wrong += codes[static_cast<size_t>(r * columns + c)] != expected;
        num_wrong += !SameNumber(inverse[ScaleAt(grain, rows, columns, r, c)], 1 / scales[i]);
      }
    }
    EXPECT_EQ(num_wrong, 0) << matrix.rows << "x" << matrix.columns << " of " << NameOf(matrix.source_format)
                            << (transposed ? ", transposed" : "");
  }

  // Checks the plain and the transposed output against the definition. With kRows, numbers share a scale only if they
  // are in one row of the output. A row of the transposed output is a column of the matrix, so the two outputs have
  // different scales.
  void ExpectQuantized(const Matrix& matrix, Grain grain) {
    const Made made = Run(matrix, grain);
    const bool rows = grain == Grain::kRows;
    const int64_t all = std::max(matrix.rows, matrix.columns);
    const int64_t wide = grain == Grain::kTensor ? all : kFp8Block;
    ExpectForm(matrix, Scales(matrix, rows ? 1 : wide, wide), made, grain, false);
    ExpectForm(matrix, Scales(matrix, wide, rows ? 1 : wide), made, grain, true);
  }

  // Checks the outputs for every critical shape and format, aligned and not.
  void ExpectAllQuantized(Grain grain) {
    const std::pair<int64_t, int64_t> shapes[] = {{1, 1}, {3, 5}, {16, 128}, {128, 128}, {200, 136}, {129, 257}};
    uint64_t seed = 1;
    for (const auto& [rows, columns] : shapes) {
      for (const Format source : kFormats) {
        ++seed;
        const Fp8Format format = seed % 2 == 0 ? Fp8Format::kE4M3 : Fp8Format::kE5M2;
        Matrix matrix = RandomMatrix(seed, rows, columns, source, format);
        matrix.scaling.power_of_two = seed % 3 != 0;
        ExpectQuantized(matrix, grain);
      }
    }
    Matrix matrix = RandomMatrix(++seed, 40, 48, Format::kBFloat16, Fp8Format::kE4M3);
    matrix.misaligned_by = 2;
    ExpectQuantized(matrix, grain);
  }

  // Checks that a non-finite number affects exactly the numbers that share its scale.
  void ExpectPoisoned(Grain grain) {
    for (const float poison : {kInf, -kInf, std::nanf("")}) {
      Matrix matrix = RandomMatrix(5, 150, 144, Format::kFloat32, Fp8Format::kE4M3);
      matrix.numbers[static_cast<size_t>(140 * matrix.columns + 3)] = poison;
      ExpectQuantized(matrix, grain);
      const Made made = Run(matrix, grain);
      const auto num_nan = std::count_if(made.plain.begin(), made.plain.end(), [](uint8_t c) { return c == 0x7f; });
      EXPECT_EQ(num_nan, grain == Grain::kTensor ? 150 * 144 : grain == Grain::kRows ? 128 : 22 * 128);
    }
  }
};

TEST_F(CudaFp8KernelsTest, Tensor_HasOneScale) { ExpectAllQuantized(Grain::kTensor); }
TEST_F(CudaFp8KernelsTest, Rows_HaveAScaleForEach128) { ExpectAllQuantized(Grain::kRows); }
TEST_F(CudaFp8KernelsTest, Squares_HaveAScaleEach) { ExpectAllQuantized(Grain::kSquares); }

TEST_F(CudaFp8KernelsTest, Tensor_NoNumberThatIsNotFiniteIsHidden) { ExpectPoisoned(Grain::kTensor); }
TEST_F(CudaFp8KernelsTest, Rows_NoNumberThatIsNotFiniteIsHidden) { ExpectPoisoned(Grain::kRows); }
TEST_F(CudaFp8KernelsTest, Squares_NoNumberThatIsNotFiniteIsHidden) { ExpectPoisoned(Grain::kSquares); }

TEST_F(CudaFp8KernelsTest, Zeros_AreZerosWithTheScaleOfTheSmallestAmax) {
  Matrix matrix = RandomMatrix(1, 130, 16, Format::kBFloat16, Fp8Format::kE4M3);
  std::fill(matrix.numbers.begin(), matrix.numbers.end(), 0.0f);
  for (const Grain grain : {Grain::kTensor, Grain::kRows, Grain::kSquares}) {
    ExpectQuantized(matrix, grain);
    EXPECT_EQ(Run(matrix, grain).plain_inverse[0], 1 / Fp8Scale(1e-12f, matrix.scaling));
  }
}

// The amax (the largest magnitude) of a tensor is found wherever it is: the tensor has more than one chunk, and its
// last pack of elements is incomplete.
TEST_F(CudaFp8KernelsTest, Tensor_AmaxIsOfAllChunks) {
  Matrix matrix = RandomMatrix(8, 3, 16385, Format::kFloat32, Fp8Format::kE5M2);
  for (const size_t at : {size_t{0}, size_t{kChunkElements - 1}, size_t{kChunkElements}, matrix.numbers.size() - 1}) {
    const size_t chunk = at / kChunkElements;
    const float amax = 1024.0f + static_cast<float>(chunk);
    const float before = std::exchange(matrix.numbers[at], -amax);
    const Made made = Run(matrix, Grain::kTensor);
    EXPECT_EQ(made.amax, amax) << at;
    EXPECT_EQ(made.plain_inverse[0], 1 / Fp8Scale(amax, matrix.scaling));
    matrix.numbers[at] = before;
  }
}

TEST_F(CudaFp8KernelsTest, KnownScale_IsTakenAndTheAmaxIsOfTheSameRead) {
  const Matrix matrix = RandomMatrix(3, 200, 136, Format::kBFloat16, Fp8Format::kE4M3);
  const float known = 100;
  const Made made = Run(matrix, Grain::kTensor, &known);
  const std::vector<float> scales(matrix.numbers.size(), known);
  ExpectForm(matrix, scales, made, Grain::kTensor, false);
  ExpectForm(matrix, scales, made, Grain::kTensor, true);
  EXPECT_EQ(made.amax, Run(matrix, Grain::kTensor).amax);
  EXPECT_EQ(std::count(made.plain.begin(), made.plain.end(), 0x7f), 0) << "what is beyond the range saturates";
  EXPECT_GT(std::count(made.plain.begin(), made.plain.end(), 0x7e), 0);
}

TEST_F(CudaFp8KernelsTest, KnownScale_OfZeroMeansTheAmaxs) {
  const Matrix matrix = RandomMatrix(4, 130, 24, Format::kFloat32, Fp8Format::kE4M3);
  const float unknown = 0;
  const Made made = Run(matrix, Grain::kTensor, &unknown);
  const Made current = Run(matrix, Grain::kTensor);
  EXPECT_EQ(made.plain, current.plain);
  EXPECT_EQ(made.plain_inverse, current.plain_inverse);
  EXPECT_EQ(made.amax, current.amax);
}

TEST_F(CudaFp8KernelsTest, KnownScale_HidesNoOverflow) {
  for (const float poison : {kInf, std::nanf("")}) {
    Matrix matrix = RandomMatrix(4, 130, 24, Format::kFloat32, Fp8Format::kE4M3);
    matrix.numbers[3000] = poison;
    const float known = 1;
    const Made made = Run(matrix, Grain::kTensor, &known);
    EXPECT_FALSE(std::isfinite(made.amax));
    EXPECT_TRUE(std::isnan(made.plain_inverse[0]));
    EXPECT_TRUE(std::isnan(made.transposed_inverse[0]));
  }
}

TEST_F(CudaFp8KernelsTest, KnownAmax_GivesTheSameBitsWithOneLaunchFewer) {
  for (const float largest : {7.0f, kInf, std::nanf("")}) {
    for (const Format source : kFormats) {
      Matrix matrix = RandomMatrix(7, 200, 136, source, Fp8Format::kE4M3);
      matrix.numbers[5000] = largest;
      const float scales[] = {0, 2};
      for (const float* const known_scale : {static_cast<const float*>(nullptr), &scales[0], &scales[1]}) {
        Made made, expected;
        const int64_t num_launches = RunBackwards([&] { expected = Run(matrix, Grain::kTensor, known_scale); });
        const int64_t num_fewer =
            num_launches - RunBackwards([&] { made = Run(matrix, Grain::kTensor, known_scale, &expected.amax); });
        EXPECT_EQ(num_fewer, num_launches > 0 ? 1 : 0);
        EXPECT_EQ(made.plain, expected.plain);
        EXPECT_EQ(made.transposed, expected.transposed);
        EXPECT_TRUE(SameNumber(made.plain_inverse[0], expected.plain_inverse[0]));
        EXPECT_TRUE(SameNumber(made.transposed_inverse[0], expected.transposed_inverse[0]));
        EXPECT_EQ(std::bit_cast<uint32_t>(made.amax), std::bit_cast<uint32_t>(expected.amax)) << "it is only read";
      }
    }
  }
}

TEST_F(CudaFp8KernelsTest, KnownAmax_IsNotLookedForInTheMatrix) {
  Matrix matrix = RandomMatrix(7, 16, 16, Format::kFloat32, Fp8Format::kE4M3);
  const float known = 2 * Run(matrix, Grain::kTensor).amax;
  const Made made = Run(matrix, Grain::kTensor, nullptr, &known);
  EXPECT_EQ(made.amax, known);
  EXPECT_EQ(made.plain_inverse[0], 1 / Fp8Scale(known, matrix.scaling));
}

TEST_F(CudaFp8KernelsTest, AnOutputThatIsNotAskedForIsNotWritten) {
  const Matrix matrix = RandomMatrix(6, 40, 136, Format::kBFloat16, Fp8Format::kE4M3);
  const DeviceBytes source(Stored(matrix.numbers, matrix.source_format));
  const Output transposed(matrix.numbers.size(), NumScales(Grain::kRows, 136, 40));
  const CudaFp8Matrix pass = {.source = source.as<void>(),
                              .source_format = matrix.source_format,
                              .rows = 40,
                              .columns = 136,
                              .transposed = transposed.Place()};
  ASSERT_EQ(kernels_->fp8->quantize_rows(&pass, nullptr), 0);
  EXPECT_EQ(Output::Inner<uint8_t>(transposed.codes), Run(matrix, Grain::kRows).transposed);
}

}  // namespace
}  // namespace ampd::kernels
