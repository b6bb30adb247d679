#include "worker/kernels/cpu/step_kernels.h"

#include <cmath>
#include <cstring>
#include <utility>

namespace ampd::kernels {
namespace {

struct Float32 {
  using Stored = float;
  static float Load(float value) { return value; }
};
struct BFloat16 {
  using Stored = uint16_t;
  static float Load(uint16_t value) { return FromBFloat16(value); }
};
struct Float16 {
  using Stored = uint16_t;
  static float Load(uint16_t value) { return FromFloat16(value); }
};

// Calls `body` with the loader of a format and the typed pointer.
template <typename Body>
auto WithFormat(Format format, const void* data, Body body) {
  switch (format) {
    case Format::kBFloat16:
      return body(BFloat16(), static_cast<const uint16_t*>(data));
    case Format::kFloat16:
      return body(Float16(), static_cast<const uint16_t*>(data));
    case Format::kFloat32:
      break;
  }
  return body(Float32(), static_cast<const float*>(data));
}

bool IsFinite(float value) { return (std::bit_cast<uint32_t>(value) & 0x7f800000) != 0x7f800000; }

}  // namespace

GradientFacts Examine(Format format, const void* gradient, int64_t count) {
  return WithFormat(format, gradient, [count](auto loader, const auto* data) {
    // Fixed lanes: the order of the additions does not depend on the instruction set.
    constexpr int kLanes = 16;
    double lanes[kLanes] = {};
    int64_t bad = 0;
    for (int64_t i = 0; i < count; ++i) {
      const float value = loader.Load(data[i]);
      lanes[i % kLanes] += static_cast<double>(value) * static_cast<double>(value);
      bad += IsFinite(value) ? 0 : 1;
    }
    GradientFacts facts{.sum_squares = 0, .num_non_finite = bad};
    for (const double lane : lanes) {
      facts.sum_squares += lane;
    }
    return facts;
  });
}

void Accumulate(Format format, const void* gradient, float* accumulated, int64_t count) {
  WithFormat(format, gradient, [=](auto loader, const auto* data) {
    for (int64_t i = 0; i < count; ++i) {
      accumulated[i] += loader.Load(data[i]);
    }
  });
}

void UpdateAdam(const AdamStep& step, float scale, Format format, const void* gradient, float* parameter,
                float* first_moment, float* second_moment, int64_t count) {
  const auto beta1 = static_cast<float>(step.beta1);
  const auto beta2 = static_cast<float>(step.beta2);
  const auto rest1 = static_cast<float>(1 - step.beta1);
  const auto rest2 = static_cast<float>(1 - step.beta2);
  const auto epsilon = static_cast<float>(step.epsilon);
  const auto step_size = static_cast<float>(step.learning_rate / step.correction1);
  const auto sqrt_correction2 = static_cast<float>(step.sqrt_correction2);
  const float keep = step.l2 ? 1.0f : static_cast<float>(1 - step.learning_rate * step.weight_decay);
  const float decay = step.l2 ? static_cast<float>(step.weight_decay) : 0.0f;
  WithFormat(format, gradient, [=](auto loader, const auto* data) {
    for (int64_t i = 0; i < count; ++i) {
      const float g = loader.Load(data[i]) * scale + decay * parameter[i];
      const float m = first_moment[i] * beta1 + g * rest1;
      const float v = second_moment[i] * beta2 + g * g * rest2;
      first_moment[i] = m;
      second_moment[i] = v;
      parameter[i] = parameter[i] * keep - step_size * m / (std::sqrt(v) / sqrt_correction2 + epsilon);
    }
  });
}

void UpdateSgd(const SgdStep& step, float scale, Format format, const void* gradient, float* parameter,
               float* momentum_buffer, int64_t count) {
  const auto rate = static_cast<float>(step.learning_rate);
  const auto decay = static_cast<float>(step.weight_decay);
  const auto momentum = static_cast<float>(step.momentum);
  const float take = step.first ? 1.0f : static_cast<float>(1 - step.dampening);
  const float keep = step.first ? 0.0f : momentum;
  const bool nesterov = step.nesterov;
  WithFormat(format, gradient, [=](auto loader, const auto* data) {
    for (int64_t i = 0; i < count; ++i) {
      float d = loader.Load(data[i]) * scale + decay * parameter[i];
      if (momentum_buffer != nullptr) {
        const float buffer = momentum_buffer[i] * keep + d * take;
        momentum_buffer[i] = buffer;
        d = nesterov ? d + momentum * buffer : buffer;
      }
      parameter[i] -= rate * d;
    }
  });
}

void Round(const float* parameter, Format format, void* working, int64_t count) {
  auto* bits = static_cast<uint16_t*>(working);
  switch (format) {
    case Format::kFloat32:
      std::memcpy(working, parameter, static_cast<size_t>(count) * sizeof(float));
      return;
    case Format::kBFloat16:
      for (int64_t i = 0; i < count; ++i) {
        bits[i] = ToBFloat16(parameter[i]);
      }
      return;
    case Format::kFloat16:
      for (int64_t i = 0; i < count; ++i) {
        bits[i] = ToFloat16(parameter[i]);
      }
  }
}

}  // namespace ampd::kernels
