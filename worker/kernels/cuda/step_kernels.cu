#include <cuda_runtime.h>

#include <cstring>

#include "worker/kernels/cuda/cuda_kernels.h"
#include "worker/kernels/cuda/launch.h"
#include "worker/kernels/cuda/packs.h"
#include "worker/kernels/philox.h"

// One launch per pass over tensors: block b finds the tensor that holds chunk b in the table, and its threads process
// the chunk in packs of 8 elements. The last pack of a tensor, and every pack of a tensor whose pointers are not
// aligned, is processed element by element.
namespace ampd::kernels {
namespace {

// Returns the tensor that contains this block's chunk.
__device__ const TensorRow& TensorOfBlock(const CudaTable& table) {
  const auto chunk = static_cast<int64_t>(blockIdx.x);
  int32_t low = 0;
  int32_t high = table.num_tensors;
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    (table.tensors[middle].first_chunk <= chunk ? low : high) = middle;
  }
  return table.tensors[low];
}

__device__ Range ChunkOfBlock(const TensorRow& tensor) {
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - tensor.first_chunk) * kChunkElements;
  const auto bits = reinterpret_cast<uintptr_t>(tensor.gradient) | reinterpret_cast<uintptr_t>(tensor.accumulated) |
                    reinterpret_cast<uintptr_t>(tensor.parameter) | reinterpret_cast<uintptr_t>(tensor.first_moment) |
                    reinterpret_cast<uintptr_t>(tensor.second_moment) | reinterpret_cast<uintptr_t>(tensor.working) |
                    reinterpret_cast<uintptr_t>(tensor.remainder) | reinterpret_cast<uintptr_t>(tensor.average);
  return {begin, min(begin + kChunkElements, tensor.count), bits % 16 == 0};
}

// Adds up the threads' stats in a fixed tree; thread 0 gets the result.
__device__ GradientStats SumOverBlock(GradientStats stats) {
  __shared__ GradientStats of_warp[kThreads / kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    stats.sum_squares += __shfl_down_sync(0xffffffff, stats.sum_squares, offset);
    stats.num_non_finite += __shfl_down_sync(0xffffffff, stats.num_non_finite, offset);
  }
  if (threadIdx.x % kWarp == 0) {
    of_warp[threadIdx.x / kWarp] = stats;
  }
  __syncthreads();
  for (int warp = 1; threadIdx.x == 0 && warp < kThreads / kWarp; ++warp) {
    stats.sum_squares += of_warp[warp].sum_squares;
    stats.num_non_finite += of_warp[warp].num_non_finite;
  }
  return stats;
}

__global__ void __launch_bounds__(kThreads) ComputeChunkStats(CudaTable table, GradientStats* chunk_stats) {
  const TensorRow tensor = TensorOfBlock(table);
  GradientStats stats;
  ForEachPack(ChunkOfBlock(tensor), [&](int64_t i, bool wide, int num) {
    const Pack gradient = Load(tensor.gradient_format, tensor.gradient, i, wide, num);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const auto value = static_cast<double>(gradient.values[k]);
      stats.sum_squares += value * value;
      stats.num_non_finite += IsFinite(gradient.values[k]) ? 0 : 1;
    }
  });
  stats = SumOverBlock(stats);
  if (threadIdx.x == 0) {
    chunk_stats[blockIdx.x] = stats;
  }
}

// Adds up the stats of each tensor's chunks. One block per tensor.
__global__ void __launch_bounds__(kThreads)
    SumTensorStats(CudaTable table, const GradientStats* chunk_stats, GradientStats* result) {
  const TensorRow tensor = table.tensors[blockIdx.x];
  const int64_t end = tensor.first_chunk + NumChunks(tensor.count);
  GradientStats stats;
  for (int64_t chunk = tensor.first_chunk + threadIdx.x; chunk < end; chunk += kThreads) {
    stats.sum_squares += chunk_stats[chunk].sum_squares;
    stats.num_non_finite += chunk_stats[chunk].num_non_finite;
  }
  stats = SumOverBlock(stats);
  if (threadIdx.x == 0) {
    result[tensor.number] = stats;
  }
}

__global__ void __launch_bounds__(kThreads) AccumulateChunks(CudaTable table) {
  const TensorRow tensor = TensorOfBlock(table);
  ForEachPack(ChunkOfBlock(tensor), [&](int64_t i, bool wide, int num) {
    const Pack gradient = Load(tensor.gradient_format, tensor.gradient, i, wide, num);
    Pack sum = LoadFloats(tensor.accumulated + i, wide, num);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      sum.values[k] += gradient.values[k];
    }
    StoreFloats(sum, tensor.accumulated + i, wide, num);
  });
}

// Splits fp32 numbers into bf16 weights and the lower halves of their masters.
__device__ void Split(const Pack& pack, void* upper, uint16_t* lower, int64_t i, bool wide, int num) {
  HalfPack uppers = {};
  HalfPack lowers = {};
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    uppers.values[k] = UpperHalf(pack.values[k]);
    lowers.values[k] = LowerHalf(pack.values[k]);
  }
  StoreHalves(uppers, static_cast<uint16_t*>(upper) + i, wide, num);
  StoreHalves(lowers, lower + i, wide, num);
}

__device__ Pack LoadParameter(const TensorRow& tensor, int64_t i, bool wide, int num) {
  if (tensor.remainder == nullptr) {
    return Load(tensor.parameter_format, tensor.parameter, i, wide, num);
  }
  const HalfPack uppers = LoadHalves(static_cast<const uint16_t*>(tensor.parameter) + i, wide, num);
  const HalfPack lowers = LoadHalves(tensor.remainder + i, wide, num);
  Pack pack = {};
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    pack.values[k] = Join(uppers.values[k], lowers.values[k]);
  }
  return pack;
}

__device__ void StoreStochastically(const Pack& pack, const StepScalars& scalars, const TensorRow& tensor, int64_t i,
                                    bool wide, int num) {
  // Packs begin at multiples of kPack, so each uses exactly one block of random bits.
  static_assert(kPack == kRandomElements);
  const PhiloxBlock random = RandomBlock(scalars, tensor.number, i / kPack);
  HalfPack rounded = {};
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    rounded.values[k] = ToBFloat16Stochastic(pack.values[k], RandomHalf(random, k));
  }
  StoreHalves(rounded, static_cast<uint16_t*>(tensor.parameter) + i, wide, num);
}

__device__ void StoreParameter(const Pack& pack, const StepScalars& scalars, const TensorRow& tensor, int64_t i,
                               bool wide, int num) {
  if (tensor.working != nullptr) {
    Store(pack, tensor.working_format, tensor.working, i, wide, num);
  }
  if (tensor.remainder != nullptr) {
    Split(pack, tensor.parameter, tensor.remainder, i, wide, num);
  } else if (tensor.stochastic) {
    StoreStochastically(pack, scalars, tensor, i, wide, num);
  } else {
    Store(pack, tensor.parameter_format, tensor.parameter, i, wide, num);
  }
  if (tensor.average != nullptr) {
    const auto rate = static_cast<float>(1 - scalars.average_decay);
    Pack average = LoadFloats(tensor.average + i, wide, num);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      average.values[k] = AverageElement(rate, pack.values[k], average.values[k]);
    }
    StoreFloats(average, tensor.average + i, wide, num);
  }
}

// Runs as one block for all phases, because there are few and each decision is sequential.
__global__ void __launch_bounds__(kThreads) DecidePhases(StepControl control, int32_t first, int32_t num_phases) {
  for (int32_t i = first; i < first + num_phases; ++i) {
    PhaseBlock& phase = control.phases[i];
    GradientStats sum;
    for (int64_t k = threadIdx.x; k < phase.num_stats; k += kThreads) {
      const GradientStats& stat = control.stats[phase.first_stat + k];
      sum.sum_squares += stat.sum_squares;
      sum.num_non_finite += stat.num_non_finite;
    }
    sum = SumOverBlock(sum);
    if (threadIdx.x == 0) {
      CheckFinite(*control.step, sum, phase);
    }
    __syncthreads();  // The next phase reuses the sums' shared memory.
  }
  if (threadIdx.x == 0) {
    FinalizeTogether(control, first, num_phases);
  }
}

__global__ void __launch_bounds__(kThreads) EndOneStep(StepControl control) {
  if (threadIdx.x == 0) {
    EndStep(control);
  }
}

__device__ void UpdatePack(const AdamNumbers& numbers, const TensorRow& tensor, const Pack& gradient, Pack& parameter,
                           int64_t i, bool wide, int num) {
  Pack first = Load(tensor.moment_format, tensor.first_moment, i, wide, num);
  Pack second = Load(tensor.moment_format, tensor.second_moment, i, wide, num);
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    UpdateElement(numbers, gradient.values[k], parameter.values[k], first.values[k], second.values[k]);
  }
  Store(first, tensor.moment_format, tensor.first_moment, i, wide, num);
  Store(second, tensor.moment_format, tensor.second_moment, i, wide, num);
}

__device__ void UpdatePack(const SgdNumbers& numbers, const TensorRow& tensor, const Pack& gradient, Pack& parameter,
                           int64_t i, bool wide, int num) {
  if (tensor.first_moment == nullptr) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      UpdateElement(numbers, gradient.values[k], parameter.values[k]);
    }
    return;
  }
  Pack momentum = Load(tensor.moment_format, tensor.first_moment, i, wide, num);
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    UpdateElement(numbers, gradient.values[k], parameter.values[k], momentum.values[k]);
  }
  Store(momentum, tensor.moment_format, tensor.first_moment, i, wide, num);
}

// `Numbers` and `Step` are AdamNumbers and AdamStep, or SgdNumbers and SgdStep.
template <typename Numbers, typename Step>
__global__ void __launch_bounds__(kThreads) UpdateChunks(CudaTable table, Step step, const StepDecision* decided) {
  const StepDecision decision = *decided;
  if (decision.skip) {
    return;
  }
  const StepScalars& scalars = decision.scalars;
  const TensorRow tensor = TensorOfBlock(table);
  const Numbers numbers(Decided(step, decision), scalars, tensor);
  ForEachPack(ChunkOfBlock(tensor), [&](int64_t i, bool wide, int num) {
    const Pack gradient = Load(tensor.gradient_format, tensor.gradient, i, wide, num);
    Pack parameter = LoadParameter(tensor, i, wide, num);
    UpdatePack(numbers, tensor, gradient, parameter, i, wide, num);
    StoreParameter(parameter, scalars, tensor, i, wide, num);
  });
}

__global__ void __launch_bounds__(kThreads) RoundChunks(CudaTable table) {
  const TensorRow tensor = TensorOfBlock(table);
  ForEachPack(ChunkOfBlock(tensor), [&](int64_t i, bool wide, int num) {
    const Pack masters = LoadFloats(static_cast<const float*>(tensor.parameter) + i, wide, num);
    if (tensor.remainder != nullptr) {
      Split(masters, tensor.working, tensor.remainder, i, wide, num);
    } else {
      Store(masters, tensor.working_format, tensor.working, i, wide, num);
    }
  });
}

__global__ void __launch_bounds__(kThreads) CopyChunks(CudaTable table, const StepDecision* if_skipped) {
  if (if_skipped != nullptr && !if_skipped->skip) {
    return;
  }
  const TensorRow tensor = TensorOfBlock(table);
  const bool is_narrow = tensor.parameter_format != Format::kFloat32;
  ForEachPack(ChunkOfBlock(tensor), [&](int64_t i, bool wide, int num) {
    if (is_narrow) {
      const HalfPack halves = LoadHalves(static_cast<const uint16_t*>(tensor.parameter) + i, wide, num);
      StoreHalves(halves, static_cast<uint16_t*>(tensor.working) + i, wide, num);
    } else {
      const Pack floats = LoadFloats(static_cast<const float*>(tensor.parameter) + i, wide, num);
      StoreFloats(floats, static_cast<float*>(tensor.working) + i, wide, num);
    }
  });
}

const char* ErrorText(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

int DescribeDevice(int ordinal, CudaDevice* device) {
  cudaDeviceProp properties = {};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal); error != cudaSuccess) {
    return error;
  }
  std::memcpy(device->name, properties.name, sizeof(device->name));
  std::memcpy(device->uuid, properties.uuid.bytes, sizeof(device->uuid));
  device->capability_major = properties.major;
  device->capability_minor = properties.minor;
  device->memory_total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  return cudaSuccess;
}

int CreateEvent(void** event) {
  cudaEvent_t created = nullptr;
  const cudaError_t error = cudaEventCreateWithFlags(&created, cudaEventBlockingSync | cudaEventDisableTiming);
  *event = created;
  return error;
}

int RecordEvent(void* event, void* stream) {
  return cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream));
}

int AwaitEvent(void* event) { return cudaEventSynchronize(static_cast<cudaEvent_t>(event)); }

int DestroyEvent(void* event) { return cudaEventDestroy(static_cast<cudaEvent_t>(event)); }

int ComputeGradStats(CudaTable table, GradientStats* chunk_stats, GradientStats* stats, void* stream) {
  if (const int error = Launch(ComputeChunkStats, table.num_chunks, stream, table, chunk_stats); error != cudaSuccess) {
    return error;
  }
  const GradientStats* const written = chunk_stats;
  return Launch(SumTensorStats, table.num_chunks == 0 ? 0 : table.num_tensors, stream, table, written, stats);
}

int Accumulate(CudaTable table, void* stream) { return Launch(AccumulateChunks, table.num_chunks, stream, table); }

int Decide(StepControl control, int32_t first_phase, int32_t num_phases, void* stream) {
  return Launch(DecidePhases, 1, stream, control, first_phase, num_phases);
}

int UpdateAdam(CudaTable table, const AdamStep* step, const StepDecision* decision, void* stream) {
  return Launch(UpdateChunks<AdamNumbers, AdamStep>, table.num_chunks, stream, table, *step, decision);
}

int UpdateSgd(CudaTable table, const SgdStep* step, const StepDecision* decision, void* stream) {
  return Launch(UpdateChunks<SgdNumbers, SgdStep>, table.num_chunks, stream, table, *step, decision);
}

int EndOfStep(StepControl control, void* stream) { return Launch(EndOneStep, 1, stream, control); }

int Round(CudaTable table, void* stream) { return Launch(RoundChunks, table.num_chunks, stream, table); }

int Copy(CudaTable table, const StepDecision* if_skipped, void* stream) {
  return Launch(CopyChunks, table.num_chunks, stream, table, if_skipped);
}

constexpr CudaKernels kKernels = {
    .version = kCudaKernelsVersion,
    .runtime_version = CUDART_VERSION,
    .error_text = ErrorText,
    .describe_device = DescribeDevice,
    .create_event = CreateEvent,
    .record_event = RecordEvent,
    .await_event = AwaitEvent,
    .destroy_event = DestroyEvent,
    .compute_grad_stats = ComputeGradStats,
    .accumulate = Accumulate,
    .decide = Decide,
    .update_adam = UpdateAdam,
    .update_sgd = UpdateSgd,
    .end_step = EndOfStep,
    .round = Round,
    .copy = Copy,
    .fp8 = &kFp8Kernels,
    .loss = &kLossKernels,
    .batch_norm = &kBatchNormKernels,
    .layer_norm = &kLayerNormKernels,
    .column_sum = &kColumnSumKernels,
    .pixels = &kPixelKernels,
};

}  // namespace
}  // namespace ampd::kernels

extern "C" __attribute__((visibility("default"))) const ampd::kernels::CudaKernels* ampd_cuda_kernels() {
  return &ampd::kernels::kKernels;
}
