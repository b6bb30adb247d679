#include <algorithm>
#include <cmath>

#include "worker/kernels/cuda/amax.h"
#include "worker/kernels/cuda/launch.h"
#include "worker/kernels/cuda/layer_norm_kernels.h"
#include "worker/kernels/cuda/layer_norm_partials.h"
#include "worker/kernels/cuda/layer_norm_rows.h"
#include "worker/kernels/cuda/packs.h"

// In the backward pass a block processes many rows. Its threads add up what their columns contribute to the gradients
// of weight and bias (layer_norm_partials.h). Which rows a block processes depends on the shape only, and every sum has
// a fixed order.
namespace ampd::kernels {
namespace layer_norm {
namespace {

constexpr int kForwardThreads = 256;
constexpr int kBackwardThreads = 288;  // Two such blocks fit a multiprocessor with about 100 registers a thread.

// Counts of the running backward pass: for each group, how many of its blocks have ended; in the last entry, how many
// groups have ended.
__device__ unsigned num_ended[kMostGroups + 1];

// If there is a y, adds it to x, stores the rounded sum and returns it. Otherwise returns x.
__device__ Pack SumOf(const CudaLayerNorm& norm, const Bits& x, const Bits& y, int64_t i, int num) {
  Pack sum = Converted(x, norm.x.format);
  if (norm.y.data == nullptr) {
    return sum;
  }
  const Pack addend = Converted(y, norm.y.format);
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    sum.values[k] = Rounded(sum.values[k] + addend.values[k], norm.sum.format);
  }
  StorePack(sum, norm.sum, norm.columns, i, num);
  return sum;
}

__device__ float TotalOf(const Pack& pack) {
  float total = 0;
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    total += pack.values[k];
  }
  return total;
}

__device__ float SquaresOf(const Pack& pack, float mean, int num) {
  float squares = 0;
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    const float difference = k < num ? pack.values[k] - mean : 0.0f;
    squares += difference * difference;
  }
  return squares;
}

__device__ float InverseDeviation(float squares, const CudaLayerNorm& norm) {
  return 1.0f / sqrtf(squares / static_cast<float>(norm.columns) + norm.epsilon);
}

// A row's mean and inverse deviation.
struct Moments {
  float mean = 0;
  float inverse_deviation = 0;
};

// Returns the amax of the first `num` numbers after rounding to the format.
__device__ uint32_t AmaxOf(const Pack& pack, Format format, int num) {
  uint32_t amax = 0;
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    amax = max(amax, k < num ? MagnitudeBits(Rounded(pack.values[k], format)) : 0u);
  }
  return amax;
}

// Stores a pack of the result. Returns its amax, or 0 if the amax is not requested.
__device__ uint32_t StoreNormalized(const CudaLayerNorm& norm, const Moments& moments, const Pack& sum,
                                    const Pack& weight, const Pack& bias, int64_t i, int num) {
  Pack result = {};
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    result.values[k] = (sum.values[k] - moments.mean) * moments.inverse_deviation * weight.values[k] + bias.values[k];
  }
  StorePack(result, norm.result, norm.columns, i, num);
  return norm.amax == nullptr ? 0 : AmaxOf(result, norm.result.format, num);
}

// Raises the norm's amax, if it is requested, to that of each thread. Every thread of the block must call it.
__device__ void RaiseAmaxIfRequested(const CudaLayerNorm& norm, uint32_t of_thread) {
  if (norm.amax != nullptr) {
    RaiseAmax(norm.amax, MaxOverBlock(of_thread));
  }
}

__device__ void StoreMoments(const CudaLayerNorm& norm, const Moments& moments, int64_t row) {
  norm.mean[row] = moments.mean;
  norm.inverse_deviation[row] = moments.inverse_deviation;
}

// Normalizes one row per team. REQUIRES: columns <= kHeldColumns.
__global__ void __launch_bounds__(kMostThreads) NormalizeRows(CudaLayerNorm norm, Teams teams) {
  const int team_threads = teams.warps * kWarp;
  const int team = static_cast<int>(threadIdx.x) / team_threads;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * teams.num + team;
  const int64_t column = static_cast<int64_t>(threadIdx.x) % team_threads * kPack;
  const int num = row < norm.rows ? NumFrom(column, norm.columns) : 0;
  const int64_t i = row * norm.columns + column;
  const Bits x = LoadBits(norm.x, norm.columns, i, num);
  const Bits y = LoadBits(norm.y, norm.columns, i, num);
  const Bits weight = LoadBits(norm.weight, norm.columns, column, num);
  const Bits bias = LoadBits(norm.bias, norm.columns, column, num);
  const Pack sum = SumOf(norm, x, y, i, num);
  Moments moments;
  float of_row[] = {TotalOf(sum)};
  SumOverTeam(of_row, teams.warps);
  moments.mean = of_row[0] / static_cast<float>(norm.columns);
  of_row[0] = SquaresOf(sum, moments.mean, num);
  SumOverTeam(of_row, teams.warps);
  moments.inverse_deviation = InverseDeviation(of_row[0], norm);
  RaiseAmaxIfRequested(norm, StoreNormalized(norm, moments, sum, Factors(weight, norm.weight),
                                             Converted(bias, norm.bias.format), i, num));
  if (row < norm.rows && column == 0) {
    StoreMoments(norm, moments, row);
  }
}

// Calls body(column, num) for each of this thread's packs in a row that the whole block processes.
template <typename Body>
__device__ void ForEachPackOfRow(int64_t columns, Body body) {
  for (int64_t column = int64_t{threadIdx.x} * kPack; column < columns; column += kHeldColumns) {
    body(column, NumFrom(column, columns));
  }
}

// Normalizes one row per block, of any length. No barrier is needed for the stored sums, because each thread reads only
// those that it wrote itself.
__global__ void __launch_bounds__(kMostThreads) NormalizeLongRows(CudaLayerNorm norm) {
  const auto row = static_cast<int64_t>(blockIdx.x);
  const int64_t columns = norm.columns;
  const int64_t first = row * columns;
  const LayerNormOperand sum = norm.y.data == nullptr ? norm.x : LayerNormOperand{norm.sum.data, norm.sum.format};
  Moments moments;
  float of_row[] = {0};
  ForEachPackOfRow(columns, [&](int64_t column, int num) {
    const Bits x = LoadBits(norm.x, columns, first + column, num);
    const Bits y = LoadBits(norm.y, columns, first + column, num);
    of_row[0] += TotalOf(SumOf(norm, x, y, first + column, num));
  });
  SumOverTeam(of_row, kMostWarps);
  moments.mean = of_row[0] / static_cast<float>(columns);
  of_row[0] = 0;
  ForEachPackOfRow(columns, [&](int64_t column, int num) {
    of_row[0] += SquaresOf(LoadPack(sum, columns, first + column, num), moments.mean, num);
  });
  SumOverTeam(of_row, kMostWarps);
  moments.inverse_deviation = InverseDeviation(of_row[0], norm);
  uint32_t amax = 0;
  ForEachPackOfRow(columns, [&](int64_t column, int num) {
    const Pack weight = Factors(LoadBits(norm.weight, columns, column, num), norm.weight);
    amax = max(amax, StoreNormalized(norm, moments, LoadPack(sum, columns, first + column, num), weight,
                                     LoadPack(norm.bias, columns, column, num), first + column, num));
  });
  RaiseAmaxIfRequested(norm, amax);
  if (threadIdx.x == 0) {
    StoreMoments(norm, moments, row);
  }
}

// A thread's part of a row in the backward pass.
struct Slope {
  Pack normalized;
  Pack gradient;  // Gradient of the result.
  Pack weight;
};

__device__ Pack NormalizedOf(Pack sum, const Moments& moments) {
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    sum.values[k] = (sum.values[k] - moments.mean) * moments.inverse_deviation;
  }
  return sum;
}

// Adds the thread's part to the two sums that the gradient of a row needs: of gradient * weight, and of
// gradient * weight * normalized.
__device__ void AddToRow(const Slope& slope, float (&of_row)[2]) {
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    const float weighted = slope.gradient.values[k] * slope.weight.values[k];
    of_row[0] += weighted;
    of_row[1] += weighted * slope.normalized.values[k];
  }
}

__device__ void StoreSumGradient(const CudaLayerNormBackward& norm, const Slope& slope, const float (&of_row)[2],
                                 float inverse_deviation, const Pack& of_sum, int64_t i, int num) {
  const float mean = of_row[0] / static_cast<float>(norm.columns);
  const float mean_of_products = of_row[1] / static_cast<float>(norm.columns);
  Pack found = {};
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    const float weighted = slope.gradient.values[k] * slope.weight.values[k];
    found.values[k] =
        (weighted - mean - slope.normalized.values[k] * mean_of_products) * inverse_deviation + of_sum.values[k];
  }
  StorePack(found, norm.x_gradient, norm.columns, i, num);
  StorePack(found, norm.y_gradient, norm.columns, i, num);
}

__device__ void Add(const Slope& slope, Contribution& contribution) {
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    contribution.of_weight.values[k] += slope.gradient.values[k] * slope.normalized.values[k];
    contribution.of_bias.values[k] += slope.gradient.values[k];
  }
}

__device__ Moments MomentsOf(const CudaLayerNormBackward& norm, int64_t row) {
  return row < norm.rows ? Moments{norm.mean[row], norm.inverse_deviation[row]} : Moments{};
}

// Each team processes every row whose distance from its first row is a multiple of blocks.num * teams.num. REQUIRES:
// columns <= kHeldColumns.
__global__ void __launch_bounds__(kMostThreads)
    DifferentiateRows(CudaLayerNormBackward norm, Teams teams, Blocks blocks) {
  const int64_t columns = norm.columns;
  const int team_threads = teams.warps * kWarp;
  const int team = static_cast<int>(threadIdx.x) / team_threads;
  const int64_t column = static_cast<int64_t>(threadIdx.x) % team_threads * kPack;
  Slope slope = {};
  slope.weight = Factors(LoadBits(norm.weight, columns, column, NumFrom(column, columns)), norm.weight);
  Contribution contribution;
  // All threads of the block run the same number of iterations, because they wait for each other in each one.
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * teams.num; first < norm.rows;
       first += blocks.num * teams.num) {
    const int64_t row = first + team;
    const int num = row < norm.rows ? NumFrom(column, columns) : 0;
    const int64_t i = row * columns + column;
    const Bits gradient = LoadBits(norm.gradient, columns, i, num);
    const Bits sum = LoadBits(norm.sum, columns, i, num);
    const Bits of_sum = LoadBits(norm.sum_gradient, columns, i, num);
    const Moments moments = MomentsOf(norm, row);
    slope.gradient = Converted(gradient, norm.gradient.format);
    slope.normalized = NormalizedOf(Converted(sum, norm.sum.format), moments);
    Add(slope, contribution);
    float of_row[] = {0, 0};
    AddToRow(slope, of_row);
    SumOverTeam(of_row, teams.warps);
    StoreSumGradient(norm, slope, of_row, moments.inverse_deviation, Converted(of_sum, norm.sum_gradient.format), i,
                     num);
  }
  if (norm.partials != nullptr) {
    StorePartials(norm, teams, team, column, contribution);
    SumPartials(norm, blocks, num_ended);
  }
}

// Adds this thread's part of a row to the block's partials.
__device__ void AddToPartials(const CudaLayerNormBackward& norm, const Slope& slope, int64_t column, int num) {
  const OwnPartials own = OwnPartialsAt(norm, column);
  for (int k = 0; k < num; ++k) {
    const float gradient = slope.gradient.values[k];
    own.of_weight[k] += gradient * slope.normalized.values[k];
    own.of_bias[k] += gradient;
  }
}

// Each block processes every row whose distance from its first row is a multiple of blocks.num. A row may have any
// length.
__global__ void __launch_bounds__(kMostThreads) DifferentiateLongRows(CudaLayerNormBackward norm, Blocks blocks) {
  const int64_t columns = norm.columns;
  if (norm.partials != nullptr) {
    ForEachPackOfRow(columns, [&](int64_t column, int num) { ClearPartials(norm, column, num); });
  }
  for (auto row = static_cast<int64_t>(blockIdx.x); row < norm.rows; row += blocks.num) {
    const Moments moments = MomentsOf(norm, row);
    const auto slope_at = [&](int64_t column, int num) {
      const int64_t i = row * columns + column;
      return Slope{NormalizedOf(LoadPack(norm.sum, columns, i, num), moments), LoadPack(norm.gradient, columns, i, num),
                   Factors(LoadBits(norm.weight, columns, column, num), norm.weight)};
    };
    float of_row[] = {0, 0};
    ForEachPackOfRow(columns, [&](int64_t column, int num) { AddToRow(slope_at(column, num), of_row); });
    SumOverTeam(of_row, kMostWarps);
    ForEachPackOfRow(columns, [&](int64_t column, int num) {
      const Slope slope = slope_at(column, num);
      const int64_t i = row * columns + column;
      if (norm.partials != nullptr) {
        AddToPartials(norm, slope, column, num);
      }
      StoreSumGradient(norm, slope, of_row, moments.inverse_deviation, LoadPack(norm.sum_gradient, columns, i, num), i,
                       num);
    });
  }
  if (norm.partials != nullptr) {
    SumPartials(norm, blocks, num_ended);
  }
}

int Forward(const CudaLayerNorm* norm, void* stream) {
  if (norm->columns > kHeldColumns) {
    return LaunchBlocks(NormalizeLongRows, norm->rows, kMostThreads, stream, *norm);
  }
  const Teams teams = TeamsFor(norm->columns, kForwardThreads);
  return LaunchBlocks(NormalizeRows, NumBlocks(norm->rows, teams), teams.num * teams.warps * kWarp, stream, *norm,
                      teams);
}

int Backward(const CudaLayerNormBackward* norm, void* stream) {
  CudaLayerNormBackward pass = *norm;
  const bool sums_rows = pass.weight_gradient.data != nullptr || pass.bias_gradient.data != nullptr;
  pass.partials = sums_rows ? pass.partials : nullptr;
  const Teams teams = TeamsFor(pass.columns, kBackwardThreads);
  // If there are no rows, the gradients of weight and bias are 0, and one block is launched to store them.
  const int64_t wanted = std::max(NumBlocks(pass.rows, teams), int64_t{sums_rows ? 1 : 0});
  const Blocks blocks = {std::min(wanted, kLayerNormPartials), teams.num * teams.warps * kWarp};
  return pass.columns > kHeldColumns
             ? LaunchBlocks(DifferentiateLongRows, blocks.num, blocks.threads, stream, pass, blocks)
             : LaunchBlocks(DifferentiateRows, blocks.num, blocks.threads, stream, pass, teams, blocks);
}

}  // namespace
}  // namespace layer_norm

const CudaLayerNormKernels kLayerNormKernels = {.forward = layer_norm::Forward, .backward = layer_norm::Backward};

}  // namespace ampd::kernels
