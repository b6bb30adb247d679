#include "worker/kernels/cpu/plain_kernels.h"

namespace ampd::kernels {
namespace {

float Load(Format format, const void* data, int64_t i) {
  switch (format) {
    case Format::kBFloat16:
      return FromBFloat16(static_cast<const uint16_t*>(data)[i]);
    case Format::kFloat16:
      return FromFloat16(static_cast<const uint16_t*>(data)[i]);
    case Format::kFloat32:
      break;
  }
  return static_cast<const float*>(data)[i];
}

void Store(float value, Format format, void* data, int64_t i) {
  switch (format) {
    case Format::kFloat32:
      static_cast<float*>(data)[i] = value;
      return;
    case Format::kBFloat16:
      static_cast<uint16_t*>(data)[i] = ToBFloat16(value);
      return;
    case Format::kFloat16:
      static_cast<uint16_t*>(data)[i] = ToFloat16(value);
      return;
  }
}

GradientFacts Examine(const TensorRow& row, int64_t begin, int64_t end) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  GradientFacts facts;
  for (int64_t i = begin; i < end; ++i) {
    const float value = Load(row.gradient_format, row.gradient, i);
    lanes[(i - begin) % kLanes] += static_cast<double>(value) * static_cast<double>(value);
    facts.num_non_finite += IsFinite(value) ? 0 : 1;
  }
  for (const double lane : lanes) {
    facts.sum_squares += lane;
  }
  return facts;
}

void Accumulate(const TensorRow& row, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    row.accumulated[i] += Load(row.gradient_format, row.gradient, i);
  }
}

void Round(const TensorRow& row, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    Store(row.parameter[i], row.working_format, row.working, i);
  }
}

// Calls update(gradient, parameter, i) for each element.
template <typename Update>
void UpdateElements(const TensorRow& row, int64_t begin, int64_t end, Update update) {
  for (int64_t i = begin; i < end; ++i) {
    update(Load(row.gradient_format, row.gradient, i), row.parameter[i], i);
    if (row.working != nullptr) {
      Store(row.parameter[i], row.working_format, row.working, i);
    }
  }
}

void UpdateAdam(const AdamStep& step, const StepScalars& scalars, const TensorRow& row, int64_t begin, int64_t end) {
  const AdamNumbers numbers(step, scalars, row);
  UpdateElements(row, begin, end, [&](float gradient, float& parameter, int64_t i) {
    UpdateElement(numbers, gradient, parameter, row.first_moment[i], row.second_moment[i]);
  });
}

void UpdateSgd(const SgdStep& step, const StepScalars& scalars, const TensorRow& row, int64_t begin, int64_t end) {
  const SgdNumbers numbers(step, scalars, row);
  UpdateElements(row, begin, end, [&](float gradient, float& parameter, int64_t i) {
    if (row.first_moment == nullptr) {
      UpdateElement(numbers, gradient, parameter);
    } else {
      UpdateElement(numbers, gradient, parameter, row.first_moment[i]);
    }
  });
}

}  // namespace

const CpuKernels kPlainKernels = {
    .name = "plain",
    .examine = Examine,
    .accumulate = Accumulate,
    .update_adam = UpdateAdam,
    .update_sgd = UpdateSgd,
    .round = Round,
};

}  // namespace ampd::kernels
