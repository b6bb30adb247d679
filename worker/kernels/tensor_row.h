#pragma once

#include <cstdint>

#include "worker/kernels/cpu/formats.h"

namespace ampd::kernels {

// One tensor as the passes of a step see it, on a CPU or a GPU. Pointers that a pass does not use may be null. On a
// GPU, accesses are 16 bytes wide if all pointers of a row are multiples of 16, as LibTorch's allocations are.
struct TensorRow {
  const void* gradient = nullptr;
  float* accumulated = nullptr;
  void* parameter = nullptr;      // fp32 masters, or 16-bit weights without masters.
  uint16_t* remainder = nullptr;  // For bf16 weights: lower halves of their masters; the weights are the upper halves.
  void* first_moment = nullptr;   // For SGD the momentum buffer; null: no momentum.
  void* second_moment = nullptr;
  float* average = nullptr;  // Average of the parameter over the steps; null: not kept.
  void* working = nullptr;   // Rounded copy of fp32 masters for the forward pass; null: it reads the masters.
  int64_t count = 0;
  int64_t first_chunk = 0;  // Number of chunks in the rows before this one.
  double learning_rate = 0;
  double weight_decay = 0;
  Format gradient_format = Format::kFloat32;
  Format parameter_format = Format::kFloat32;
  Format moment_format = Format::kFloat32;
  Format working_format = Format::kFloat32;
  bool stochastic = false;  // bf16 weights without a remainder: rounded up or down at random, without bias.
  uint32_t number = 0;      // Index in the pass; selects the row's stats and its stream of random bits.
};

// The number of elements in a chunk. A thread block, or a call of a CPU loop, processes one chunk of a tensor. Squares
// are summed per chunk, so that a norm does not depend on the number of threads.
inline constexpr int64_t kChunkElements = 16384;

inline constexpr int64_t NumChunks(int64_t count) { return (count + kChunkElements - 1) / kChunkElements; }

}  // namespace ampd::kernels
