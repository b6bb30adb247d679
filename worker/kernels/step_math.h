#pragma once

#include <cmath>
#include <cstdint>

#include "worker/kernels/host_device.h"
#include "worker/kernels/tensor_row.h"

// The update of one element in one optimizer step, for the CPU's loops and the CUDA kernels. The order of operations is
// part of the contract. Compiled without contraction (fused multiply-adds), every device gives the same bits.
namespace ampd::kernels {

// Statistics of one gradient. A pass before the update computes them in one read of the gradient.
struct GradientStats {
  double sum_squares = 0;  // Over the elements as stored; not finite if any element is not.
  int64_t num_non_finite = 0;
};

// Scalars that all tensors of a step share, for any optimizer.
struct StepScalars {
  float gradient_scale = 1;  // Unscales and clips: every gradient is multiplied by it when read.
  double rate_factor = 1;    // The schedule's factor on every tensor's learning rate.
  double average_decay = 0;  // Weight of a tensor's average in its next value.
  // The random bits for rounding are a function of this seed, the step, the tensor's number (TensorRow::number) and the
  // element. So a checkpoint needs to hold only the seed and the step.
  uint64_t rounding_seed = 0;
  int64_t step = 0;
};

// One step of torch.optim.AdamW, with decoupled weight decay. If `l2` is set, it is a step of torch.optim.Adam, which
// adds the decay to the gradient. The corrections are 1 - beta1^t and sqrt(1 - beta2^t) for step number t. Each
// tensor's TensorRow has its learning rate and weight decay.
struct AdamStep {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool l2 = false;
  double correction1 = 1;
  double sqrt_correction2 = 1;
};

// One step of torch.optim.SGD. On the first step the momentum buffer becomes the gradient, without dampening.
struct SgdStep {
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  bool first = false;
};

// The constants of one Adam step for one tensor (its TensorRow), in fp32, the precision of the update.
struct AdamNumbers {
  AMPD_HOST_DEVICE AdamNumbers(const AdamStep& step, const StepScalars& scalars, const TensorRow& row)
      : scale(scalars.gradient_scale),
        beta1(static_cast<float>(step.beta1)),
        beta2(static_cast<float>(step.beta2)),
        rest1(static_cast<float>(1 - step.beta1)),
        rest2(static_cast<float>(1 - step.beta2)),
        epsilon(static_cast<float>(step.epsilon)),
        step_size(static_cast<float>(row.learning_rate * scalars.rate_factor / step.correction1)),
        sqrt_correction2(static_cast<float>(step.sqrt_correction2)),
        keep(step.l2 ? 1.0f : static_cast<float>(1 - row.learning_rate * scalars.rate_factor * row.weight_decay)),
        decay(step.l2 ? static_cast<float>(row.weight_decay) : 0.0f) {}

  float scale, beta1, beta2, rest1, rest2, epsilon, step_size, sqrt_correction2, keep, decay;
};

struct SgdNumbers {
  AMPD_HOST_DEVICE SgdNumbers(const SgdStep& step, const StepScalars& scalars, const TensorRow& row)
      : scale(scalars.gradient_scale),
        rate(static_cast<float>(row.learning_rate * scalars.rate_factor)),
        decay(static_cast<float>(row.weight_decay)),
        momentum(static_cast<float>(step.momentum)),
        take(step.first ? 1.0f : static_cast<float>(1 - step.dampening)),
        keep(step.first ? 0.0f : momentum),
        nesterov(step.nesterov) {}

  float scale, rate, decay, momentum, take, keep;
  bool nesterov;
};

// `gradient` is the stored value, widened to fp32.
AMPD_HOST_DEVICE inline void UpdateElement(const AdamNumbers& step, float gradient, float& parameter,
                                           float& first_moment, float& second_moment) {
  const float g = gradient * step.scale + step.decay * parameter;
  first_moment = first_moment * step.beta1 + g * step.rest1;
  second_moment = second_moment * step.beta2 + g * g * step.rest2;
  parameter = parameter * step.keep -
              step.step_size * first_moment / (std::sqrt(second_moment) / step.sqrt_correction2 + step.epsilon);
}

AMPD_HOST_DEVICE inline void UpdateElement(const SgdNumbers& step, float gradient, float& parameter) {
  parameter -= step.rate * (gradient * step.scale + step.decay * parameter);
}

AMPD_HOST_DEVICE inline void UpdateElement(const SgdNumbers& step, float gradient, float& parameter,
                                           float& momentum_buffer) {
  const float d = gradient * step.scale + step.decay * parameter;
  momentum_buffer = momentum_buffer * step.keep + d * step.take;
  parameter -= step.rate * (step.nesterov ? d + step.momentum * momentum_buffer : momentum_buffer);
}

// The exponential average of torch.optim.swa_utils; `rate` is 1 - decay.
AMPD_HOST_DEVICE inline float AverageElement(float rate, float parameter, float average) {
  return average + rate * (parameter - average);
}

}  // namespace ampd::kernels
