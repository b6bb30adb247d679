#pragma once

#include <cstdint>

#include "worker/kernels/cpu/formats.h"

// The loops of one training step over one tensor, on a CPU. Every function reads and writes `count` elements in order,
// allocates nothing, and gives the same bits for the same input whatever the number of threads around it.
namespace ampd::kernels {

// What the pre-pass learns of one gradient in one read.
struct GradientFacts {
  double sum_squares = 0;  // of the elements as they are; not finite when any of them is not
  int64_t num_non_finite = 0;
};
GradientFacts Examine(Format format, const void* gradient, int64_t count);

// accumulated[i] += gradient[i]
void Accumulate(Format format, const void* gradient, float* accumulated, int64_t count);

// torch.optim.AdamW, one step, with decoupled weight decay, or torch.optim.Adam when `l2` is set: then the decay is
// added to the gradient. The corrections are 1 - beta1^t and sqrt(1 - beta2^t) for the step's number t.
struct AdamStep {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool l2 = false;
  double correction1 = 1;
  double sqrt_correction2 = 1;
};
// The gradient is multiplied by `scale` (unscaling and clipping in one) as it is read.
void UpdateAdam(const AdamStep& step, float scale, Format format, const void* gradient, float* parameter,
                float* first_moment, float* second_moment, int64_t count);

// torch.optim.SGD, one step. On the first step the momentum buffer becomes the gradient, without dampening.
struct SgdStep {
  double learning_rate = 0;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool first = false;
};
// `momentum_buffer` may be null when momentum is 0.
void UpdateSgd(const SgdStep& step, float scale, Format format, const void* gradient, float* parameter,
               float* momentum_buffer, int64_t count);

// working[i] = parameter[i], rounded to the format.
void Round(const float* parameter, Format format, void* working, int64_t count);

}  // namespace ampd::kernels
