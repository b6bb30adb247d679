#pragma once

#include <cstdint>

#include "worker/kernels/cpu/formats.h"
#include "worker/kernels/step_math.h"

// The plain interface of libampd_cuda.so, without types of LibTorch or CUDA: a program that links neither opens the
// library at run time (worker/device/cuda_plugin.h) and calls through the table that its one exported function returns.
//
// The step's passes over all tensors, each one launch: examine, accumulate, update, round. They equal the CPU's loops
// (cpu/step_kernels.h) bit for bit, except for the order in which examine adds up the squares. Nothing here allocates,
// synchronises or keeps state, and every pass is deterministic.
namespace ampd::kernels {

// Changes with every change of what follows, of step_math.h's structs and of Format.
inline constexpr uint32_t kCudaKernelsVersion = 1;
inline constexpr char kCudaKernelsSymbol[] = "ampd_cuda_kernels";

// Elements that one thread block works on.
inline constexpr int64_t kCudaChunkElements = 16384;

// One tensor's place in a pass. All pointers are to device memory; those that a pass does not name may be null. When
// all pointers of a tensor are multiples of 16, and so for every allocation of LibTorch, accesses are 16 bytes wide.
struct CudaTensor {
  const void* gradient = nullptr;
  float* accumulated = nullptr;
  float* parameter = nullptr;
  float* first_moment = nullptr;  // of SGD the momentum buffer; null: no momentum
  float* second_moment = nullptr;
  void* working = nullptr;  // null: the parameter itself is what the forward pass reads
  int64_t count = 0;
  int64_t first_chunk = 0;  // chunks of the tensors before this one
  Format gradient_format = Format::kFloat32;
  Format working_format = Format::kFloat32;
};

inline constexpr int64_t NumCudaChunks(int64_t count) { return (count + kCudaChunkElements - 1) / kCudaChunkElements; }

// All tensors of a pass. REQUIRES: first_chunk grows by NumCudaChunks(count) from 0 to num_chunks. Nothing is launched
// when num_chunks is 0; otherwise no tensor may be empty.
struct CudaTable {
  const CudaTensor* tensors = nullptr;  // in device memory, until the pass has run
  int32_t num_tensors = 0;
  int64_t num_chunks = 0;
};

// A device as CUDA sees it.
struct CudaDevice {
  char name[256] = {};
  uint8_t uuid[16] = {};
  int32_t capability_major = 0;
  int32_t capability_minor = 0;
  int64_t memory_total_bytes = 0;
};

// Every function returns 0 or a cudaError_t, for which `error_text` has words that live for ever. `stream` is a
// cudaStream_t; null is the default stream of the device that is current to the calling thread, which is LibTorch's
// too. A pass that reads what another wrote comes after it on the same stream.
struct CudaKernels {
  uint32_t version;         // kCudaKernelsVersion of the library
  int32_t runtime_version;  // of CUDA, as 1000 * major + 10 * minor; a driver of an earlier major can't run it

  const char* (*error_text)(int error);
  int (*describe_device)(int ordinal, CudaDevice* device);

  // facts[i]: of tensors[i].gradient. `chunk_facts` is room for num_chunks; nobody needs to zero either.
  int (*examine)(CudaTable table, GradientFacts* chunk_facts, GradientFacts* facts, void* stream);

  // accumulated[i] += gradient[i]
  int (*accumulate)(CudaTable table, void* stream);

  // Update parameter and moments, and write the parameter, rounded, to `working` where that is set.
  int (*update_adam)(CudaTable table, const AdamStep* step, float scale, void* stream);
  int (*update_sgd)(CudaTable table, const SgdStep* step, float scale, void* stream);

  // working[i] = parameter[i], rounded. REQUIRES: working is set.
  int (*round)(CudaTable table, void* stream);
};

}  // namespace ampd::kernels

extern "C" {
using AmpdCudaKernelsFunction = const ampd::kernels::CudaKernels*();
}
