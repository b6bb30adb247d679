#pragma once

#include <cstdint>

#include "worker/kernels/cpu/formats.h"
#include "worker/kernels/step_math.h"

// The loops of one training step over one tensor, on a CPU. Every function reads and writes `count` elements in order,
// allocates nothing, and gives the same bits for the same input whatever the number of threads around it.
namespace ampd::kernels {

// Sums the squares in 16 lanes, element i in lane i % 16, and then the lanes.
GradientFacts Examine(Format format, const void* gradient, int64_t count);

// accumulated[i] += gradient[i]
void Accumulate(Format format, const void* gradient, float* accumulated, int64_t count);

// The gradient is multiplied by `scale` (unscaling and clipping in one) as it is read.
void UpdateAdam(const AdamStep& step, float scale, Format format, const void* gradient, float* parameter,
                float* first_moment, float* second_moment, int64_t count);

// `momentum_buffer` may be null when momentum is 0.
void UpdateSgd(const SgdStep& step, float scale, Format format, const void* gradient, float* parameter,
               float* momentum_buffer, int64_t count);

// working[i] = parameter[i], rounded to the format.
void Round(const float* parameter, Format format, void* working, int64_t count);

}  // namespace ampd::kernels
