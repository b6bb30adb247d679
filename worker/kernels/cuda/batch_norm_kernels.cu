#include <cuda_runtime.h>

#include <cmath>

#include "worker/kernels/cuda/batch_norm_kernels.h"
#include "worker/kernels/cuda/batch_norm_rows.h"
#include "worker/kernels/cuda/batch_norm_sums.h"
#include "worker/kernels/cuda/launch.h"
#include "worker/kernels/cuda/packs.h"

// Sums over the rows are taken in three steps, each in a fixed order. A thread adds up its rows in fp32. A block adds
// up the sums of its threads in a tree and stores the sums of its slice. A second kernel adds up the sums of the slices
// in double.
namespace ampd::kernels {
namespace batch_norm {
namespace {

constexpr int64_t kSpreadBlocks = 2112;  // Blocks of kernels that do not sum: several rounds on an H100.
constexpr int kBlocksAtOnce = 2;         // Per multiprocessor, at least; leaves 128 registers a thread.

// Combines mean and sum of squared differences of two sets of numbers (Chan, Golub and LeVeque, 1979).
struct MergeMoments {
  __device__ void operator()(Cell& mine, const Cell& other, float kept, float added) const {
    if (added == 0) {
      return;
    }
    const float share = added / (kept + added);
    const float delta = other.a - mine.a;
    mine.a += delta * share;
    mine.b += other.b + delta * delta * (kept * share);
  }
};

// Computes the mean of each channel over each slice, and the sum of squared differences from this mean. A thread first
// subtracts its first number from all its numbers. The differences are no larger than the numbers' spread, so hardly
// any digits cancel.
template <Format kFormat>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce) SumMoments(CudaBatchNorm norm, BatchNormSplit split) {
  const Place place = PlaceToSum(norm, split);
  Side<Stored<kFormat>> first[1];
  LoadRows(norm.input, place, place.row, first);
  Sums sums = {};
  for (int64_t row = place.row; row < place.end; row += kBatch<kFormat> * place.step) {
    Side<Stored<kFormat>> input[kBatch<kFormat>];
    LoadRows(norm.input, place, row, input);
#pragma unroll
    for (int u = 0; u < kBatch<kFormat>; ++u) {
      if (row + u * place.step < place.end) {
#pragma unroll
        for (int k = 0; k < kPack; ++k) {
          const float shifted = Widened<kFormat>(input[u].At(k)) - Widened<kFormat>(first[0].At(k));
          sums.a.values[k] += shifted;
          sums.b.values[k] += shifted * shifted;
        }
      }
    }
  }
  const int64_t num_rows = place.row < place.end ? (place.end - place.row + place.step - 1) / place.step : 0;
  if (num_rows > 0) {
    const double share = 1.0 / static_cast<double>(num_rows);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const auto sum = static_cast<double>(sums.a.values[k]);
      sums.a.values[k] = static_cast<float>(static_cast<double>(Widened<kFormat>(first[0].At(k))) + sum * share);
      const auto squares = static_cast<float>(static_cast<double>(sums.b.values[k]) - sum * sum * share);
      sums.b.values[k] = squares < 0 ? 0.0f : squares;  // A NaN stays.
    }
  }
  MergeOverBlock(split, static_cast<float>(num_rows), sums, MergeMoments());
  StoreSums(norm, split, place, sums);
}

__device__ void UpdateRunning(float* running, int64_t channel, double momentum, double value) {
  if (running != nullptr) {
    running[channel] = static_cast<float>((1 - momentum) * static_cast<double>(running[channel]) + momentum * value);
  }
}

// Combines the moments of all slices, and sets mean, inverse standard deviation and running statistics.
__global__ void __launch_bounds__(kThreads) FinishMoments(CudaBatchNormForward pass, BatchNormSplit split) {
  const CudaBatchNorm& norm = pass.norm;
  const int64_t channel = FinalChannel();
  const bool has_channel = channel < norm.channels;
  const RowsOfSlices rows_of(norm, split);
  // The first slice's mean is subtracted from the means of all slices, so that hardly any digits cancel.
  const double origin = has_channel ? static_cast<double>(norm.scratch[channel]) : 0;
  FinalSums sums = {};
#pragma unroll 4
  for (int64_t slice = FinalLane(); has_channel && slice < split.slices; slice += kFinalLanes) {
    const auto rows = static_cast<double>(rows_of(slice));
    const float* const of_slice = SumsOfSlice(norm, slice);
    const double shifted = static_cast<double>(of_slice[channel]) - origin;
    sums.a += rows * shifted;
    sums.b += rows * shifted * shifted;
    sums.c += static_cast<double>(of_slice[norm.channels + channel]);
  }
  sums = SumOverLanes(sums);
  if (!has_channel || FinalLane() != 0) {
    return;
  }
  const auto rows = static_cast<double>(norm.rows);
  const double mean = origin + sums.a / rows;
  const double between = sums.b - sums.a * sums.a / rows;
  const double squares = sums.c + (between < 0 ? 0.0 : between);  // A NaN stays.
  norm.mean[channel] = static_cast<float>(mean);
  norm.inverse_std[channel] = static_cast<float>(1 / sqrt(squares / rows + pass.epsilon));
  UpdateRunning(pass.running_mean, channel, pass.momentum, mean);
  UpdateRunning(pass.running_variance, channel, pass.momentum, squares / (rows - 1));
}

// The kernel takes only those fields of the pass that it needs. If it took the whole pass, the compiler would use more
// registers.
template <Format kFormat, bool kAddsResidual>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    Normalize(CudaBatchNorm norm, BatchNormSplit split, const void* residuals, void* outputs, uint8_t* relu_mask) {
  const Place place = PlaceToSpread(norm, split);
  const Affine affine = LoadAffine(norm, place);
  const bool relu = norm.relu;
  for (int64_t row = place.row; row < place.end; row += kBatch<kFormat> * place.step) {
    Side<Stored<kFormat>> input[kBatch<kFormat>];
    Side<Stored<kFormat>> residual[kBatch<kFormat>];
    LoadRows(norm.input, place, row, input);
    if constexpr (kAddsResidual) {
      LoadRows(residuals, place, row, residual);
    }
    uint32_t masks = 0;
#pragma unroll
    for (int u = 0; u < kBatch<kFormat>; ++u) {
      Side<Stored<kFormat>> output = {};
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        float value = affine(Widened<kFormat>(input[u].At(k)), k);
        if constexpr (kAddsResidual) {
          value = Widened<kFormat>(Narrowed<kFormat>(value)) + Widened<kFormat>(residual[u].At(k));
          masks |= (value <= LargestZero<kFormat>() ? 0u : 1u) << (kPack * u + k);  // A NaN passes its gradient.
        }
        output.Set(k, Narrowed<kFormat>(relu && value < 0 ? 0.0f : value));  // A NaN stays.
      }
      if (row + u * place.step < place.end) {
        StoreRow(output, outputs, place, row + u * place.step);
      }
    }
    // The rows store their masks together: if each stored its own, the compiler would spill registers.
    if (kAddsResidual && relu) {
      StoreMasks<kBatch<kFormat>>(masks, relu_mask, place, row);
    }
  }
}

// How the backward pass finds where ReLU was active. kNone: there is no ReLU. kFromInput: from the output, which is
// computed again from the input. kStored: from the mask that the forward pass has stored.
enum class Mask { kNone, kFromInput, kStored };

// Adds the elements of `other` to those of `side`, and rounds each sum to the format.
template <Format kFormat>
__device__ void AddSide(Side<Stored<kFormat>>& side, const Side<Stored<kFormat>>& other) {
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    side.Set(k, Narrowed<kFormat>(Widened<kFormat>(side.At(k)) + Widened<kFormat>(other.At(k))));
  }
}

// Sets an element to 0 if its bit in `mask` is 0.
template <typename T>
__device__ void KeepWhere(uint32_t mask, Side<T>& side) {
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    if ((mask >> k & 1) == 0) {
      side.Set(k, 0);
    }
  }
}

struct AddSums {
  __device__ void operator()(Cell& mine, const Cell& other, float /*kept*/, float /*added*/) const {
    mine.a += other.a;
    mine.b += other.b;
  }
};

// Sums two quantities over each slice: the masked gradient, which is 0 where ReLU was inactive, and its product with
// (input - mean). With kStored, also stores the masked gradient. `kAddsGradients`: the gradient is the sum of two.
template <Format kFormat, Mask kMask, bool kAddsGradients>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    SumGradients(CudaBatchNormBackward pass, BatchNormSplit split) {
  using T = Stored<kFormat>;
  const Place place = PlaceToSum(pass.norm, split);
  const Affine affine = LoadAffine(pass.norm, place);
  Sums sums = {};
  for (int64_t row = place.row; row < place.end; row += kBatch<kFormat> * place.step) {
    Side<T> input[kBatch<kFormat>];
    Side<T> gradient[kBatch<kFormat>];
    Side<T> second[kBatch<kFormat>];
    uint32_t masks[kBatch<kFormat>];
    LoadRows(pass.gradient, place, row, gradient);
    if constexpr (kAddsGradients) {
      LoadRows(pass.second_gradient, place, row, second);
    }
    LoadRows(pass.norm.input, place, row, input);
    if constexpr (kMask == Mask::kStored) {
      LoadMasks(pass.relu_mask, place, row, masks);
    }
#pragma unroll
    for (int u = 0; u < kBatch<kFormat>; ++u) {
      if (row + u * place.step >= place.end) {
        continue;
      }
      if constexpr (kAddsGradients) {
        AddSide<kFormat>(gradient[u], second[u]);
      }
      if constexpr (kMask == Mask::kStored) {
        KeepWhere(masks[u], gradient[u]);
      }
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        const float value = Widened<kFormat>(input[u].At(k));
        if (kMask == Mask::kFromInput && affine(value, k) <= LargestZero<kFormat>()) {
          gradient[u].Set(k, 0);
        }
        const float passed = Widened<kFormat>(gradient[u].At(k));
        sums.a.values[k] += passed;
        sums.b.values[k] += passed * (value - affine.mean.values[k]);
      }
      if constexpr (kMask == Mask::kStored) {
        StoreRow(gradient[u], pass.residual_gradient, place, row + u * place.step);
      }
    }
  }
  MergeOverBlock(split, 0, sums, AddSums());
  StoreSums(pass.norm, split, place, sums);
}

// Adds up the sums of all slices. Sets the gradients of weight and bias, and for each channel the two coefficients that
// the input's gradient needs.
__global__ void __launch_bounds__(kThreads) FinishGradients(CudaBatchNormBackward pass, BatchNormSplit split) {
  const CudaBatchNorm& norm = pass.norm;
  const int64_t channel = FinalChannel();
  const bool has_channel = channel < norm.channels;
  FinalSums sums = {};
#pragma unroll 4
  for (int64_t slice = FinalLane(); has_channel && slice < split.slices; slice += kFinalLanes) {
    const float* const of_slice = SumsOfSlice(norm, slice);
    sums.a += static_cast<double>(of_slice[channel]);
    sums.b += static_cast<double>(of_slice[norm.channels + channel]);
  }
  sums = SumOverLanes(sums);
  if (!has_channel || FinalLane() != 0) {
    return;
  }
  const auto inverse_std = static_cast<double>(norm.inverse_std[channel]);
  if (pass.weight_gradient != nullptr) {
    pass.weight_gradient[channel] = static_cast<float>(sums.b * inverse_std);
  }
  if (pass.bias_gradient != nullptr) {
    pass.bias_gradient[channel] = static_cast<float>(sums.a);
  }
  float* const coefficients = CoefficientsIn(norm, split);
  const auto rows = static_cast<double>(norm.rows);
  coefficients[channel] = static_cast<float>(sums.a / rows);
  coefficients[norm.channels + channel] = static_cast<float>(sums.b * inverse_std * inverse_std / rows);
}

// input_gradient = (gradient - mean(gradient) - (input - mean) * k) * inverse_std * weight, with k = mean(gradient *
// (input - mean)) * inverse_std^2. The gradient counts as 0 where ReLU was inactive. `coefficients`: mean(gradient),
// then k.
template <Format kFormat, bool kMasks>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    SpreadGradients(CudaBatchNormBackward pass, BatchNormSplit split, const void* gradients,
                    const float* coefficients) {
  using T = Stored<kFormat>;
  const Place place = PlaceToSpread(pass.norm, split);
  const Affine affine = LoadAffine(pass.norm, place);
  const Pack mean_gradient = LoadChannels(coefficients, place, 0);
  const Pack slope = LoadChannels(coefficients + place.channels, place, 0);
  for (int64_t row = place.row; row < place.end; row += kBatch<kFormat> * place.step) {
    Side<T> input[kBatch<kFormat>];
    Side<T> gradient[kBatch<kFormat>];
    LoadRows(gradients, place, row, gradient);
    LoadRows(pass.norm.input, place, row, input);
#pragma unroll
    for (int u = 0; u < kBatch<kFormat>; ++u) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        const float value = Widened<kFormat>(input[u].At(k));
        float passed = Widened<kFormat>(gradient[u].At(k));
        if (kMasks && affine(value, k) <= LargestZero<kFormat>()) {
          passed = 0;
        }
        const float centred = value - affine.mean.values[k];
        const float spread = (passed - mean_gradient.values[k] - centred * slope.values[k]) * affine.scale.values[k];
        gradient[u].Set(k, Narrowed<kFormat>(spread));
      }
      if (row + u * place.step < place.end) {
        StoreRow(gradient[u], pass.input_gradient, place, row + u * place.step);
      }
    }
  }
}

int64_t NumBlocks(const BatchNormSplit& split) { return split.across * split.slices; }

// Divides the matrix among about `num_blocks` blocks. `others`: the pointers that a pass uses besides those of
// `norm`. 16-byte accesses are allowed only if all these pointers are aligned.
template <size_t n>
BatchNormSplit SplitOf(const CudaBatchNorm& norm, int64_t num_blocks, const void* const (&others)[n]) {
  BatchNormSplit split = SplitBatchNorm(norm.rows, norm.channels, num_blocks);
  uintptr_t bits = 0;
  const void* const shared[] = {norm.input, norm.weight, norm.bias, norm.mean, norm.inverse_std, norm.scratch};
  for (const void* const pointer : shared) {
    bits |= reinterpret_cast<uintptr_t>(pointer);
  }
  for (const void* const pointer : others) {
    bits |= reinterpret_cast<uintptr_t>(pointer);
  }
  split.wide = norm.channels % kPack == 0 && bits % 16 == 0;
  return split;
}

template <Format kFormat>
int RunForward(const CudaBatchNormForward& pass, void* stream) {
  const void* const others[] = {pass.residual, pass.output};
  const BatchNormSplit summing = SplitOf(pass.norm, kBatchNormSumBlocks, others);
  const BatchNormSplit spread = SplitOf(pass.norm, kSpreadBlocks, others);
  int error = Launch(SumMoments<kFormat>, NumBlocks(summing), stream, pass.norm, summing);
  if (error == cudaSuccess) {
    error = Launch(FinishMoments, NumFinalBlocks(pass.norm), stream, pass, summing);
  }
  if (error != cudaSuccess) {
    return error;
  }
  const auto normalize = pass.norm.adds_residual ? Normalize<kFormat, true> : Normalize<kFormat, false>;
  return Launch(normalize, NumBlocks(spread), stream, pass.norm, spread, pass.residual, pass.output, pass.relu_mask);
}

template <Format kFormat>
int RunBackward(const CudaBatchNormBackward& pass, void* stream) {
  const CudaBatchNorm& norm = pass.norm;
  const void* const others[] = {pass.gradient, pass.second_gradient, pass.residual_gradient, pass.input_gradient};
  const BatchNormSplit summing = SplitOf(norm, kBatchNormSumBlocks, others);
  const BatchNormSplit spread = SplitOf(norm, kSpreadBlocks, others);
  const Mask mask = !norm.relu ? Mask::kNone : norm.adds_residual ? Mask::kStored : Mask::kFromInput;
  const auto sum = mask == Mask::kNone               ? SumGradients<kFormat, Mask::kNone, false>
                   : mask == Mask::kFromInput        ? SumGradients<kFormat, Mask::kFromInput, false>
                   : pass.second_gradient == nullptr ? SumGradients<kFormat, Mask::kStored, false>
                                                     : SumGradients<kFormat, Mask::kStored, true>;
  int error = Launch(sum, NumBlocks(summing), stream, pass, summing);
  if (error == cudaSuccess) {
    error = Launch(FinishGradients, NumFinalBlocks(norm), stream, pass, summing);
  }
  if (error != cudaSuccess || pass.input_gradient == nullptr) {
    return error;
  }
  const void* const masked = pass.residual_gradient;
  const void* const gradients = mask == Mask::kStored ? masked : pass.gradient;
  const float* const coefficients = norm.scratch + 2 * summing.slices * norm.channels;
  const auto give = mask == Mask::kFromInput ? SpreadGradients<kFormat, true> : SpreadGradients<kFormat, false>;
  return Launch(give, NumBlocks(spread), stream, pass, spread, gradients, coefficients);
}

int Forward(const CudaBatchNormForward* pass, void* stream) {
  switch (pass->norm.format) {
    case Format::kFloat32:
      return RunForward<Format::kFloat32>(*pass, stream);
    case Format::kBFloat16:
      return RunForward<Format::kBFloat16>(*pass, stream);
    case Format::kFloat16:
      return RunForward<Format::kFloat16>(*pass, stream);
  }
  return cudaErrorInvalidValue;
}

int Backward(const CudaBatchNormBackward* pass, void* stream) {
  switch (pass->norm.format) {
    case Format::kFloat32:
      return RunBackward<Format::kFloat32>(*pass, stream);
    case Format::kBFloat16:
      return RunBackward<Format::kBFloat16>(*pass, stream);
    case Format::kFloat16:
      return RunBackward<Format::kFloat16>(*pass, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace
}  // namespace batch_norm

const CudaBatchNormKernels kBatchNormKernels = {
    .forward = batch_norm::Forward,
    .backward = batch_norm::Backward,
};

}  // namespace ampd::kernels
