// Compares the CUDA kernels for column sums with their definition (column_sum_kernels.h), computed in double by plain
// loops. This file is compiled twice: over the emulated CUDA of this folder, and over the real CUDA.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/worker/kernels/cuda_fixture.h"
#include "tests/worker/kernels/device_bytes.h"

namespace ampd::kernels {
namespace {

struct Shape {
  int64_t rows = 1;
  int64_t columns = 1;
  bool is_misaligned = false;
};

class CudaColumnSumKernelsTest : public CudaTest {
 protected:
  // Returns the sums, after a check that nothing else was written. Sums and scratch hold NaNs at first.
  Bytes Sum(const Bytes& matrix, Format format, const Shape& shape) const {
    const DeviceBytes given(matrix.empty() ? Bytes(1) : matrix, shape.is_misaligned ? BytesOf(format) : 0);
    const DeviceBytes sums(Guarded(static_cast<size_t>(shape.columns) * BytesOf(format)));
    const auto num_partials = static_cast<size_t>(ColumnSumPartials(shape.rows, shape.columns));
    const DeviceBytes partials(Guarded(num_partials * sizeof(float)));
    const CudaColumnSum pass = {
        .matrix = given.as<void>(),
        .format = format,
        .rows = shape.rows,
        .columns = shape.columns,
        .sums = sums.as<std::byte>() + kGuardBytes,
        .partials = num_partials == 0 ? nullptr : reinterpret_cast<float*>(partials.as<std::byte>() + kGuardBytes)};
    EXPECT_EQ(kernels_->column_sum->sum_columns(&pass, nullptr), 0);
    Inner(partials.Read());
    return Inner(sums.Read());
  }

  // Checks the sums of a random matrix, with the rounding of its format and the error of sums in fp32.
  void ExpectRight(const Shape& shape, Format format) const {
    const Bytes matrix = Stored(RandomNumbers(3, shape.rows * shape.columns, -4, 0), format);
    const std::vector<float> numbers = Widened(matrix, format);
    const std::vector<float> sums = Widened(Sum(matrix, format, shape), format);
    const double rounding = 1.1 * (format == Format::kFloat32    ? 0x1p-24
                                   : format == Format::kBFloat16 ? 0x1p-8
                                                                 : 0x1p-11);
    int64_t num_wrong = 0;
    for (size_t c = 0; c < sums.size(); ++c) {
      double expected = 0, magnitude = 0;
      for (size_t i = c; i < numbers.size(); i += sums.size()) {
        expected += static_cast<double>(numbers[i]);
        magnitude += std::abs(static_cast<double>(numbers[i]));
      }
      const double error = 64 * 0x1p-24 * magnitude;
      num_wrong +=
          !(std::abs(static_cast<double>(sums[c]) - expected) <= error + rounding * (std::abs(expected) + error));
    }
    EXPECT_EQ(num_wrong, 0) << shape.rows << "x" << shape.columns << " in " << NameOf(format);
  }

 private:
  static Bytes Guarded(size_t size) {
    Bytes bytes(size + 2 * kGuardBytes, kGuard);
    std::fill_n(bytes.begin() + kGuardBytes, size, std::byte{0xff});
    return bytes;
  }

  static Bytes Inner(const Bytes& all) {
    const auto guarded = [](std::byte byte) { return byte == kGuard; };
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kGuardBytes, guarded)) << "written before it";
    EXPECT_TRUE(std::all_of(all.end() - kGuardBytes, all.end(), guarded)) << "written behind it";
    return {all.begin() + kGuardBytes, all.end() - kGuardBytes};
  }
};

TEST_F(CudaColumnSumKernelsTest, EveryShape) {
  for (const Format format : kFormats) {
    for (const int64_t rows : {1, 2, 7, 33, 130}) {
      for (const int64_t columns : {1, 3, 8, 10, 40, 255, 256, 264, 520, 2304}) {
        ExpectRight({.rows = rows, .columns = columns}, format);
      }
    }
  }
}

TEST_F(CudaColumnSumKernelsTest, ManyRowsInSlices) {
  for (const Format format : kFormats) {
    ASSERT_GT(ColumnSumSlices(1000, 768), 1);
    ExpectRight({.rows = 1000, .columns = 768}, format);
    ExpectRight({.rows = 1003, .columns = 771}, format);
    ExpectRight({.rows = 20001, .columns = 5}, format);
    ExpectRight({.rows = 20001, .columns = 16}, format);
  }
  ASSERT_EQ(ColumnSumSlices(40000, 264), kColumnSumBlocks / 2);
  ExpectRight({.rows = 40000, .columns = 264}, Format::kBFloat16);
}

TEST_F(CudaColumnSumKernelsTest, ManyColumns) {
  ExpectRight({.rows = 3, .columns = 65536}, Format::kBFloat16);
  ExpectRight({.rows = 200, .columns = 50257}, Format::kFloat16);
}

TEST_F(CudaColumnSumKernelsTest, AddressesNeedNoAlignment) {
  for (const Format format : kFormats) {
    ExpectRight({.rows = 9, .columns = 64, .is_misaligned = true}, format);
    ExpectRight({.rows = 700, .columns = 512, .is_misaligned = true}, format);
  }
}

// A matrix of whole numbers has one right sum, whatever the order.
TEST_F(CudaColumnSumKernelsTest, SumsThatFp32HoldsAreExactAndRoundedOnce) {
  const Shape shape = {.rows = 1031, .columns = 72};
  std::vector<float> numbers(static_cast<size_t>(shape.rows * shape.columns));
  std::vector<float> expected(static_cast<size_t>(shape.columns));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(static_cast<int>(i * 7919 % 127) - 40);
    expected[i % expected.size()] += numbers[i];
  }
  for (const Format format : kFormats) {
    EXPECT_EQ(Sum(Stored(numbers, format), format, shape), Stored(expected, format)) << NameOf(format);
  }
}

TEST_F(CudaColumnSumKernelsTest, GivesTheSameBitsAgain) {
  const Shape shape = {.rows = 900, .columns = 768};
  const Bytes matrix = Stored(RandomNumbers(5, shape.rows * shape.columns), Format::kFloat32);
  EXPECT_EQ(Sum(matrix, Format::kFloat32, shape), Sum(matrix, Format::kFloat32, shape));
}

// Some matrices have one tile of columns, others several; the last tile may be incomplete. The rows of some matrices
// form one slice, those of others several.
TEST_F(CudaColumnSumKernelsTest, TheOrderOfTheBlocks_ChangesNoBit_AndOneLaunchDoesAll) {
  for (const Shape& shape : {Shape{.rows = 900, .columns = 768}, Shape{.rows = 20001, .columns = 5},
                             Shape{.rows = 3000, .columns = 264}, Shape{.rows = 4, .columns = 8}}) {
    const Bytes matrix = Stored(RandomNumbers(5, shape.rows * shape.columns), Format::kFloat32);
    Bytes backwards;
    const int64_t num_launches = RunBackwards([&] { backwards = Sum(matrix, Format::kFloat32, shape); });
    EXPECT_LE(num_launches, 1);
    EXPECT_EQ(Sum(matrix, Format::kFloat32, shape), backwards) << shape.rows << " x " << shape.columns;
  }
}

TEST_F(CudaColumnSumKernelsTest, ANumberThatIsNotFiniteReachesItsColumnOnly) {
  const Shape shape = {.rows = 701, .columns = 320};
  for (const float poison : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> numbers = RandomNumbers(6, shape.rows * shape.columns);
    const std::vector<float> clean = Widened(Sum(BytesFrom(numbers), Format::kFloat32, shape), Format::kFloat32);
    numbers[static_cast<size_t>(700 * shape.columns + 9)] = poison;
    const std::vector<float> sums = Widened(Sum(BytesFrom(numbers), Format::kFloat32, shape), Format::kFloat32);
    for (size_t c = 0; c < sums.size(); ++c) {
      EXPECT_TRUE(c == 9 ? !std::isfinite(sums[c]) : sums[c] == clean[c]) << c;
    }
  }
}

TEST_F(CudaColumnSumKernelsTest, NoRowsGiveZero) {
  EXPECT_EQ(Sum({}, Format::kBFloat16, {.rows = 0, .columns = 24}), Bytes(48));
}

}  // namespace
}  // namespace ampd::kernels
