#include "worker/kernels/cpu/plain_kernels.h"

#include "worker/kernels/philox.h"

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

GradientStats ComputeGradStats(const TensorRow& row, int64_t begin, int64_t end) {
  constexpr int kLanes = 32;
  double lanes[kLanes] = {};
  GradientStats stats;
  for (int64_t i = begin; i < end; ++i) {
    const float value = Load(row.gradient_format, row.gradient, i);
    lanes[(i - begin) % kLanes] += static_cast<double>(value) * static_cast<double>(value);
    stats.num_non_finite += IsFinite(value) ? 0 : 1;
  }
  for (int lane = 0; lane < kLanes / 2; ++lane) {
    stats.sum_squares += lanes[lane] + lanes[lane + kLanes / 2];
  }
  return stats;
}

void Accumulate(const TensorRow& row, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    row.accumulated[i] += Load(row.gradient_format, row.gradient, i);
  }
}

void StoreHalves(float value, void* upper, uint16_t* lower, int64_t i) {
  static_cast<uint16_t*>(upper)[i] = UpperHalf(value);
  lower[i] = LowerHalf(value);
}

void Round(const TensorRow& row, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float master = static_cast<const float*>(row.parameter)[i];
    if (row.remainder != nullptr) {
      StoreHalves(master, row.working, row.remainder, i);
    } else {
      Store(master, row.working_format, row.working, i);
    }
  }
}

float LoadParameter(const TensorRow& row, int64_t i) {
  return row.remainder != nullptr ? Join(static_cast<const uint16_t*>(row.parameter)[i], row.remainder[i])
                                  : Load(row.parameter_format, row.parameter, i);
}

void StoreParameter(float value, const StepScalars& scalars, const TensorRow& row, int64_t i) {
  if (row.working != nullptr) {
    Store(value, row.working_format, row.working, i);
  }
  if (row.remainder != nullptr) {
    StoreHalves(value, row.parameter, row.remainder, i);
  } else if (row.stochastic) {
    const PhiloxBlock block = RandomBlock(scalars, row.number, i / kRandomElements);
    static_cast<uint16_t*>(row.parameter)[i] =
        ToBFloat16Stochastic(value, RandomHalf(block, static_cast<int>(i % kRandomElements)));
  } else {
    Store(value, row.parameter_format, row.parameter, i);
  }
}

// Calls update(gradient, parameter, first, second) for each element, and stores the updated values. `first` and
// `second` are the optimizer's moments.
template <typename Update>
void UpdateElements(const StepScalars& scalars, const TensorRow& row, int64_t begin, int64_t end, Update update) {
  for (int64_t i = begin; i < end; ++i) {
    float parameter = LoadParameter(row, i);
    float first = row.first_moment != nullptr ? Load(row.moment_format, row.first_moment, i) : 0;
    float second = row.second_moment != nullptr ? Load(row.moment_format, row.second_moment, i) : 0;
    update(Load(row.gradient_format, row.gradient, i), parameter, first, second);
    StoreParameter(parameter, scalars, row, i);
    if (row.first_moment != nullptr) {
      Store(first, row.moment_format, row.first_moment, i);
    }
    if (row.second_moment != nullptr) {
      Store(second, row.moment_format, row.second_moment, i);
    }
    if (row.average != nullptr) {
      row.average[i] = AverageElement(static_cast<float>(1 - scalars.average_decay), parameter, row.average[i]);
    }
  }
}

void UpdateAdam(const AdamStep& step, const StepScalars& scalars, const TensorRow& row, int64_t begin, int64_t end) {
  const AdamNumbers numbers(step, scalars, row);
  UpdateElements(scalars, row, begin, end, [&](float gradient, float& parameter, float& first, float& second) {
    UpdateElement(numbers, gradient, parameter, first, second);
  });
}

void UpdateSgd(const SgdStep& step, const StepScalars& scalars, const TensorRow& row, int64_t begin, int64_t end) {
  const SgdNumbers numbers(step, scalars, row);
  UpdateElements(scalars, row, begin, end, [&](float gradient, float& parameter, float& first, float& /*second*/) {
    if (row.first_moment == nullptr) {
      UpdateElement(numbers, gradient, parameter);
    } else {
      UpdateElement(numbers, gradient, parameter, first);
    }
  });
}

}  // namespace

const CpuKernels kPlainKernels = {
    .name = "plain",
    .compute_grad_stats = ComputeGradStats,
    .accumulate = Accumulate,
    .update_adam = UpdateAdam,
    .update_sgd = UpdateSgd,
    .round = Round,
};

}  // namespace ampd::kernels
