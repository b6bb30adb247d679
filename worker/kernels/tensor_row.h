#pragma once

#include <cstdint>

#include "worker/kernels/cpu/formats.h"

namespace ampd::kernels {

// One tensor's place in the step's passes, on a CPU or a GPU. Pointers that a pass does not name may be null. On a GPU
// accesses are 16 bytes wide when all pointers of a row are multiples of 16, and so for every allocation of LibTorch.
struct TensorRow {
  const void* gradient = nullptr;
  float* accumulated = nullptr;
  void* parameter = nullptr;      // fp32 masters, or 16-bit weights that have none
  uint16_t* remainder = nullptr;  // of bf16 weights: the lower halves of their masters, whose upper ones they are
  void* first_moment = nullptr;   // of SGD the momentum buffer; null: no momentum
  void* second_moment = nullptr;
  float* average = nullptr;  // of the parameter over the steps; null: none is kept
  void* working = nullptr;   // of fp32 masters: the rounded copy that the forward pass reads; null: it reads them
  int64_t count = 0;
  int64_t first_chunk = 0;  // chunks of the rows before this one
  double learning_rate = 0;
  double weight_decay = 0;
  Format gradient_format = Format::kFloat32;
  Format parameter_format = Format::kFloat32;
  Format moment_format = Format::kFloat32;
  Format working_format = Format::kFloat32;
  bool stochastic = false;  // bf16 weights without a remainder: rounded up or down at random, right in the mean
  uint32_t number = 0;      // among the tensors of its pass: of its facts, and of its stream of random bits
};

// A pass goes through its tensors in chunks of this many elements: one thread block's work, one call of a CPU's loop,
// and the unit in which squares are summed up, so that a norm does not depend on the number of threads.
inline constexpr int64_t kChunkElements = 16384;

inline constexpr int64_t NumChunks(int64_t count) { return (count + kChunkElements - 1) / kChunkElements; }

}  // namespace ampd::kernels
