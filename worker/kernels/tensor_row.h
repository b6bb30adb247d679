#pragma once

#include <cstdint>

#include "worker/kernels/cpu/formats.h"

namespace ampd::kernels {

// One tensor's place in the step's passes, on a CPU or a GPU. Pointers that a pass does not name may be null. On a GPU
// accesses are 16 bytes wide when all pointers of a row are multiples of 16, and so for every allocation of LibTorch.
struct TensorRow {
  const void* gradient = nullptr;
  float* accumulated = nullptr;
  float* parameter = nullptr;
  float* first_moment = nullptr;  // of SGD the momentum buffer; null: no momentum
  float* second_moment = nullptr;
  void* working = nullptr;  // null: the parameter itself is what the forward pass reads
  int64_t count = 0;
  int64_t first_chunk = 0;  // chunks of the rows before this one
  double learning_rate = 0;
  double weight_decay = 0;
  Format gradient_format = Format::kFloat32;
  Format working_format = Format::kFloat32;
};

// A pass goes through its tensors in chunks of this many elements: one thread block's work, one call of a CPU's loop,
// and the unit in which squares are summed up, so that a norm does not depend on the number of threads.
inline constexpr int64_t kChunkElements = 16384;

inline constexpr int64_t NumChunks(int64_t count) { return (count + kChunkElements - 1) / kChunkElements; }

}  // namespace ampd::kernels
