#pragma once

#include <cstdint>

#include "worker/kernels/cuda/batch_norm_kernels.h"
#include "worker/kernels/cuda/column_sum_kernels.h"
#include "worker/kernels/cuda/fp8_kernels.h"
#include "worker/kernels/cuda/layer_norm_kernels.h"
#include "worker/kernels/cuda/loss_kernels.h"
#include "worker/kernels/cuda/pixel_kernels.h"
#include "worker/kernels/step_control.h"
#include "worker/kernels/step_math.h"
#include "worker/kernels/tensor_row.h"

// The plain interface of libampd_cuda.so, without types of LibTorch or CUDA. A program that links neither opens the
// library at run time (worker/device/cuda_plugin.h) and calls through the table that its one exported function returns.
//
// The step's passes over all tensors are compute_grad_stats, accumulate, update, round and copy, with one launch for
// each (two for compute_grad_stats). They equal the CPU's loops (cpu/step_kernels.h) bit for bit, except for the order
// in which compute_grad_stats adds up the squares. Between compute_grad_stats and update, decide reads the results of
// compute_grad_stats and writes the decisions for update, on the device. No pass allocates or synchronises, and
// every pass is deterministic. Nothing keeps state, except for counts that are 0 between two launches (last_block.h).
namespace ampd::kernels {

// Incremented with every change to the rest of this file, to the other headers of this folder that it includes, to the
// structs of step_math.h and step_control.h, to TensorRow or to Format.
inline constexpr uint32_t kCudaKernelsVersion = 9;
inline constexpr char kCudaKernelsSymbol[] = "ampd_cuda_kernels";

// All tensors of a pass. All pointers are to device memory. REQUIRES: each tensor's first_chunk is the number of chunks
// of the tensors before it (NumChunks of their counts), and num_chunks is that of all tensors. If num_chunks is 0,
// nothing is launched; otherwise no tensor may be empty.
struct CudaTable {
  const TensorRow* tensors = nullptr;  // In device memory, until the pass has run.
  int32_t num_tensors = 0;
  int64_t num_chunks = 0;
};

// A device's properties as CUDA reports them.
struct CudaDevice {
  char name[256] = {};
  uint8_t uuid[16] = {};
  int32_t capability_major = 0;
  int32_t capability_minor = 0;
  int64_t memory_total_bytes = 0;
};

// Every function returns 0 or a cudaError_t. `error_text` returns the text of such an error, which is never freed.
// `stream` is a cudaStream_t; null is the default stream of the calling thread's current device. A pass that reads
// what another pass wrote must be launched after that pass, on the same stream.
struct CudaKernels {
  uint32_t version;  // The library's kCudaKernelsVersion.
  // Version of the CUDA runtime, 1000 * major + 10 * minor. Drivers of an earlier major version cannot run it.
  int32_t runtime_version;

  const char* (*error_text)(int error);
  int (*describe_device)(int ordinal, CudaDevice* device);

  // An event marks a point in the work of a stream. The events measure no time. await_event waits until the work before
  // the point is done, and uses no core while it waits; it is the only function of the table that waits.
  int (*create_event)(void** event);
  int (*record_event)(void* event, void* stream);
  int (*await_event)(void* event);
  int (*destroy_event)(void* event);

  // Sets stats[tensors[i].number] from tensors[i].gradient; other stats are left alone. `chunk_stats` is scratch for
  // num_chunks stats, which need not be zeroed.
  int (*compute_grad_stats)(CudaTable table, GradientStats* chunk_stats, GradientStats* stats, void* stream);

  // accumulated[i] += gradient[i]
  int (*accumulate)(CudaTable table, void* stream);

  // Checks the stats of `num_phases` phases, from `first_phase` on, and decides whether all of them update or none.
  int (*decide)(StepControl control, int32_t first_phase, int32_t num_phases, void* stream);

  // Update parameter, moments and average, and write the rounded parameter to `working` if set. Do nothing if
  // `decision`, in device memory, says to skip the step. Fields that `step` and the decision both have are read from
  // the decision.
  int (*update_adam)(CudaTable table, const AdamStep* step, const StepDecision* decision, void* stream);
  int (*update_sgd)(CudaTable table, const SgdStep* step, const StepDecision* decision, void* stream);

  // Ends the step, after its last update (EndStep in step_control.h).
  int (*end_step)(StepControl control, void* stream);

  // Sets working[i] to parameter[i], rounded, and remainder[i], if set, to the lower half of parameter[i].
  int (*round)(CudaTable table, void* stream);

  // Copies parameter[i] to working[i] without a change; both have the format of the parameter. `if_skipped` may be
  // null. Otherwise it is a decision in device memory, and the kernel copies only if the decision says to skip the
  // step. This restores what the skipped step has changed.
  int (*copy)(CudaTable table, const StepDecision* if_skipped, void* stream);

  const CudaFp8Kernels* fp8;
  const CudaLossKernels* loss;
  const CudaBatchNormKernels* batch_norm;
  const CudaLayerNormKernels* layer_norm;
  const CudaColumnSumKernels* column_sum;
  const CudaPixelKernels* pixels;
};

}  // namespace ampd::kernels

extern "C" {
using AmpdCudaKernelsFunction = const ampd::kernels::CudaKernels*();
}
