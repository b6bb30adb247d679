#include <cuda_runtime.h>

#include <cmath>
#include <limits>

#include "worker/kernels/cuda/launch.h"
#include "worker/kernels/cuda/loss_kernels.h"
#include "worker/kernels/cuda/packs.h"

// A thread block processes one row of logits. Its threads read the row in packs of 8 adjacent elements, from the row's
// first address that is a multiple of 16; thread 0 reads the few elements before that address.
namespace ampd::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();

constexpr int ItemBytes(Format format) { return format == Format::kFloat32 ? 4 : 2; }

// The address of element `i` of an array in the format.
template <Format kFormat, typename Byte>
__device__ Byte* At(Byte* data, int64_t i) {
  return data + i * ItemBytes(kFormat);
}

__device__ int64_t BytesPastWide(const void* data) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) % 16);
}

// Calls body(i, wide, num) for each of this thread's packs of a row: for `num` elements from i on. `wide`: whether
// body may use 16-byte accesses. `same_alignment`: whether the other memory that body accesses is aligned like the
// row; only then are 16-byte accesses allowed.
template <Format kFormat, typename Body>
__device__ void ForEachPackOfRow(const void* row, int64_t classes, bool same_alignment, Body body) {
  constexpr int64_t kStride = int64_t{kThreads} * kPack;
  const int64_t head = same_alignment ? min((16 - BytesPastWide(row)) % 16 / ItemBytes(kFormat), classes) : 0;
  if (threadIdx.x == 0 && head > 0) {
    body(int64_t{0}, false, static_cast<int>(head));
  }
  int64_t i = head + int64_t{threadIdx.x} * kPack;
  if (same_alignment) {
#pragma unroll 2
    for (; i + kPack <= classes; i += kStride) {
      body(i, true, kPack);
    }
  }
  for (; i < classes; i += kStride) {
    body(i, false, static_cast<int>(min(classes - i, int64_t{kPack})));
  }
}

// The sum of exp(x) over numbers x, as sum * exp(largest). `largest` starts as the lowest finite number, because the
// difference of two infinities would be NaN. With a positive infinity or a NaN among the numbers, `sum` is NaN.
struct ExpSum {
  float largest = kLowest;
  float sum = 0;

  __device__ void Add(const Pack& pack) {
    float most = largest;
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      most = fmaxf(most, pack.values[k]);
    }
    if (most > largest) {
      sum *= expf(largest - most);
      largest = most;
    }
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      sum += expf(pack.values[k] - largest);
    }
  }

  __device__ void Add(const ExpSum& other) {
    const float most = fmaxf(largest, other.largest);
    sum = sum * expf(largest - most) + other.sum * expf(other.largest - most);
    largest = most;
  }
};

// Adds up the threads' sums in a fixed tree; thread 0 gets the result.
__device__ ExpSum SumOverBlock(ExpSum sum) {
  __shared__ float largest_of[kThreads / kWarp];
  __shared__ float sum_of[kThreads / kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    ExpSum other;
    other.largest = __shfl_down_sync(0xffffffff, sum.largest, offset);
    other.sum = __shfl_down_sync(0xffffffff, sum.sum, offset);
    sum.Add(other);
  }
  if (threadIdx.x % kWarp == 0) {
    largest_of[threadIdx.x / kWarp] = sum.largest;
    sum_of[threadIdx.x / kWarp] = sum.sum;
  }
  __syncthreads();
  for (int warp = 1; threadIdx.x == 0 && warp < kThreads / kWarp; ++warp) {
    ExpSum other;
    other.largest = largest_of[warp];
    other.sum = sum_of[warp];
    sum.Add(other);
  }
  return sum;
}

template <Format kFormat>
__device__ const std::byte* RowOf(const CudaCrossEntropy& pass, int64_t row) {
  return At<kFormat>(static_cast<const std::byte*>(pass.logits), row * pass.row_stride);
}

// Computes log_sum_exp and the loss of one row.
template <Format kFormat>
__global__ void __launch_bounds__(kThreads) ComputeRowLosses(CudaCrossEntropy pass, float* row_losses) {
  const auto row = static_cast<int64_t>(blockIdx.x);
  const int64_t target = pass.target[row];
  if (target == kIgnoredTarget) {
    if (threadIdx.x == 0) {
      pass.log_sum_exp[row] = 0;
      row_losses[row] = 0;
    }
    return;
  }
  const std::byte* const logits = RowOf<kFormat>(pass, row);
  ExpSum sum;
  ForEachPackOfRow<kFormat>(logits, pass.classes, /*same_alignment=*/true, [&](int64_t i, bool wide, int num) {
    Pack pack = Load(kFormat, logits, i, wide, num);
    if (!wide) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        pack.values[k] = k < num ? pack.values[k] : -kInfinity;
      }
    }
    sum.Add(pack);
  });
  sum = SumOverBlock(sum);
  if (threadIdx.x == 0) {
    const bool is_class = target >= 0 && target < pass.classes;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float of_target = is_class ? Load(kFormat, logits, target, false, 1).values[0] : nan;
    const float logarithm = logf(sum.sum);
    pass.log_sum_exp[row] = is_class ? sum.largest + logarithm : nan;
    row_losses[row] = (sum.largest - of_target) + logarithm;
  }
}

struct RowSums {
  double loss = 0;
  int64_t num_counted = 0;
};

// Adds up the threads' sums in a fixed tree; thread 0 gets the result.
__device__ RowSums SumOverBlock(RowSums sums) {
  __shared__ double loss_of[kThreads / kWarp];
  __shared__ int64_t num_counted_of[kThreads / kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    sums.loss += __shfl_down_sync(0xffffffff, sums.loss, offset);
    sums.num_counted += __shfl_down_sync(0xffffffff, sums.num_counted, offset);
  }
  if (threadIdx.x % kWarp == 0) {
    loss_of[threadIdx.x / kWarp] = sums.loss;
    num_counted_of[threadIdx.x / kWarp] = sums.num_counted;
  }
  __syncthreads();
  for (int warp = 1; threadIdx.x == 0 && warp < kThreads / kWarp; ++warp) {
    sums.loss += loss_of[warp];
    sums.num_counted += num_counted_of[warp];
  }
  return sums;
}

// Sums the losses of all rows. Runs as one block.
__global__ void __launch_bounds__(kThreads) SumRowLosses(CudaCrossEntropy pass, const float* row_losses, float* loss) {
  RowSums sums;
#pragma unroll 8
  for (int64_t row = threadIdx.x; row < pass.rows; row += kThreads) {
    sums.loss += row_losses[row];
    sums.num_counted += pass.target[row] == kIgnoredTarget ? 0 : 1;
  }
  sums = SumOverBlock(sums);
  if (threadIdx.x == 0) {
    const auto num_counted = static_cast<double>(sums.num_counted);
    *pass.num_counted = static_cast<float>(num_counted);
    *loss = static_cast<float>(pass.is_mean ? sums.loss / num_counted : sums.loss);
  }
}

// Sets the elements of a row from `begin` on to 0.
template <Format kFormat>
__device__ void Clear(std::byte* row, int64_t begin, int64_t end) {
  std::byte* const first = At<kFormat>(row, begin);
  ForEachPackOfRow<kFormat>(first, end - begin, /*same_alignment=*/true,
                            [&](int64_t i, bool wide, int num) { Store(Pack(), kFormat, first, i, wide, num); });
}

// Writes the gradient of one row. A thread reads a pack before it writes the same pack, and no other thread reads it,
// so the gradient may be written over the logits.
template <Format kFormat>
__global__ void __launch_bounds__(kThreads)
    WriteRowGradients(CudaCrossEntropy pass, const float* upstream, CudaLogitGradient gradient) {
  const auto row = static_cast<int64_t>(blockIdx.x);
  const int64_t target = pass.target[row];
  const int64_t width = pass.classes + gradient.padding;
  std::byte* const result = At<kFormat>(static_cast<std::byte*>(gradient.data), row * gradient.row_stride);
  if (target == kIgnoredTarget) {
    Clear<kFormat>(result, 0, width);
    return;
  }
  const std::byte* const logits = RowOf<kFormat>(pass, row);
  const float scale = pass.is_mean ? *upstream / *pass.num_counted : *upstream;
  const float log_sum_exp = pass.log_sum_exp[row];
  const bool same_alignment = BytesPastWide(logits) == BytesPastWide(result);
  ForEachPackOfRow<kFormat>(logits, pass.classes, same_alignment, [&](int64_t i, bool wide, int num) {
    Pack pack = Load(kFormat, logits, i, wide, num);
    // The target is compared before the subtraction, because the subtraction would overflow if the target is the
    // smallest int64.
    const int place = target >= i && target < i + kPack ? static_cast<int>(target - i) : -1;
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      pack.values[k] = (expf(pack.values[k] - log_sum_exp) - (k == place ? 1.0f : 0.0f)) * scale;
    }
    Store(pack, kFormat, result, i, wide, num);
  });
  Clear<kFormat>(result, pass.classes, width);
}

// Returns the kernel for the format: one of the three arguments.
template <typename Kernel>
Kernel* For(Format format, Kernel* of_float32, Kernel* of_bfloat16, Kernel* of_float16) {
  return format == Format::kFloat32 ? of_float32 : format == Format::kBFloat16 ? of_bfloat16 : of_float16;
}

int CrossEntropy(const CudaCrossEntropy* pass, float* row_losses, float* loss, void* stream) {
  auto* const kernel = For(pass->format, ComputeRowLosses<Format::kFloat32>, ComputeRowLosses<Format::kBFloat16>,
                           ComputeRowLosses<Format::kFloat16>);
  if (const int error = Launch(kernel, pass->rows, stream, *pass, row_losses); error != cudaSuccess) {
    return error;
  }
  const float* const written = row_losses;
  return Launch(SumRowLosses, 1, stream, *pass, written, loss);
}

int CrossEntropyBackward(const CudaCrossEntropy* pass, const float* upstream, CudaLogitGradient gradient,
                         void* stream) {
  auto* const kernel = For(pass->format, WriteRowGradients<Format::kFloat32>, WriteRowGradients<Format::kBFloat16>,
                           WriteRowGradients<Format::kFloat16>);
  return Launch(kernel, pass->rows, stream, *pass, upstream, gradient);
}

}  // namespace

const CudaLossKernels kLossKernels = {
    .cross_entropy = CrossEntropy,
    .cross_entropy_backward = CrossEntropyBackward,
};

}  // namespace ampd::kernels
