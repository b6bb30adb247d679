#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"

// Checks that the tensors which a run carries from step to step hold finite numbers.
namespace ampd::amp {

// A tensor of the state, and its role.
struct StateTensor {
  enum class Kind {
    kParameter,  // A parameter as it is stored, or its master.
    kStatistic,  // A buffer that training writes: a norm's running statistics.
    kAverage,    // The average of a parameter.
    kMoment,     // A moment of the optimizer.
    kConstant,   // A buffer that is never written. It may be infinite, like an attention mask, but not NaN.
  };
  Kind kind = Kind::kParameter;
  std::string name;
  at::Tensor tensor;
};

struct NonFinite {
  StateTensor::Kind kind = StateTensor::Kind::kParameter;
  std::string name;
  at::ScalarType dtype = at::kFloat;
  int64_t count = 0;  // Number of non-finite elements; for kConstant, of NaNs.
};

// Returns the first tensor with a NaN or an infinity that a tensor of its kind may not hold; nothing if there is none.
// Reads every tensor once and waits for their device once. Integers are always finite.
std::optional<NonFinite> FindNonFinite(const std::vector<StateTensor>& tensors);

// Returns text such as "the running statistic layer4.0.bn1.running_var has 512 elements that are not finite", followed
// by the format if it has 16 bits.
std::string Describe(const NonFinite& found);

}  // namespace ampd::amp
