#include "worker/kernels/cpu/step_kernels.h"

#include <algorithm>
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
  const AdamNumbers numbers(step);
  WithFormat(format, gradient, [=](auto loader, const auto* data) {
    for (int64_t i = 0; i < count; ++i) {
      UpdateElement(numbers, scale, loader.Load(data[i]), parameter[i], first_moment[i], second_moment[i]);
    }
  });
}

void UpdateSgd(const SgdStep& step, float scale, Format format, const void* gradient, float* parameter,
               float* momentum_buffer, int64_t count) {
  const SgdNumbers numbers(step);
  WithFormat(format, gradient, [=](auto loader, const auto* data) {
    for (int64_t i = 0; i < count; ++i) {
      if (momentum_buffer == nullptr) {
        UpdateElement(numbers, scale, loader.Load(data[i]), parameter[i]);
      } else {
        UpdateElement(numbers, scale, loader.Load(data[i]), parameter[i], momentum_buffer[i]);
      }
    }
  });
}

void Round(const float* parameter, Format format, void* working, int64_t count) {
  auto* bits = static_cast<uint16_t*>(working);
  switch (format) {
    case Format::kFloat32:
      std::copy_n(parameter, count, static_cast<float*>(working));
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
