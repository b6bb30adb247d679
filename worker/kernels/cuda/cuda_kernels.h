#pragma once

#include <cstdint>

#include "worker/kernels/cuda/fp8_kernels.h"
#include "worker/kernels/step_control.h"
#include "worker/kernels/step_math.h"
#include "worker/kernels/tensor_row.h"

// The plain interface of libampd_cuda.so, without types of LibTorch or CUDA: a program that links neither opens the
// library at run time (worker/device/cuda_plugin.h) and calls through the table that its one exported function returns.
//
// The step's passes over all tensors, each one launch: examine, accumulate, update, round. They equal the CPU's loops
// (cpu/step_kernels.h) bit for bit, except for the order in which examine adds up the squares. Between examine and
// update, decide reads what the one found and writes what the other does, on the device. Nothing here allocates,
// synchronises or keeps state, and every pass is deterministic.
namespace ampd::kernels {

// Changes with every change of what follows, of fp8_kernels.h, of the structs of step_math.h and step_control.h, of
// TensorRow and of Format.
inline constexpr uint32_t kCudaKernelsVersion = 5;
inline constexpr char kCudaKernelsSymbol[] = "ampd_cuda_kernels";

// All tensors of a pass. All pointers are to device memory. REQUIRES: first_chunk grows by NumChunks(count) from 0 to
// num_chunks. Nothing is launched when num_chunks is 0; otherwise no tensor may be empty.
struct CudaTable {
  const TensorRow* tensors = nullptr;  // in device memory, until the pass has run
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
// cudaStream_t; null is the default stream of the device that is current to the calling thread. A pass that reads what
// another wrote comes after it on the same stream.
struct CudaKernels {
  uint32_t version;         // kCudaKernelsVersion of the library
  int32_t runtime_version;  // of CUDA, as 1000 * major + 10 * minor; a driver of an earlier major can't run it

  const char* (*error_text)(int error);
  int (*describe_device)(int ordinal, CudaDevice* device);

  // facts[tensors[i].number]: of tensors[i].gradient; others are left alone. `chunk_facts` is room for num_chunks;
  // nobody needs to zero it.
  int (*examine)(CudaTable table, GradientFacts* chunk_facts, GradientFacts* facts, void* stream);

  // accumulated[i] += gradient[i]
  int (*accumulate)(CudaTable table, void* stream);

  // Judges `num_phases` phases from `first_phase` on by their facts, and settles them together.
  int (*decide)(StepControl control, int32_t first_phase, int32_t num_phases, void* stream);

  // Unless `decision`, in device memory, is to skip: update parameter, moments and average, and write the parameter,
  // rounded, to `working` where that is set. Of `step` what the decision says besides is not read.
  int (*update_adam)(CudaTable table, const AdamStep* step, const StepDecision* decision, void* stream);
  int (*update_sgd)(CudaTable table, const SgdStep* step, const StepDecision* decision, void* stream);

  // The step's tail.
  int (*end_step)(StepControl control, void* stream);

  // working[i] = parameter[i], rounded, and remainder[i] what that leaves, where it is set.
  int (*round)(CudaTable table, void* stream);

  const CudaFp8Kernels* fp8;
};

}  // namespace ampd::kernels

extern "C" {
using AmpdCudaKernelsFunction = const ampd::kernels::CudaKernels*();
}
