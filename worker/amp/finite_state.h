#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"

// Whether the tensors that a run carries from step to step hold finite numbers.
namespace ampd::amp {

// A tensor of the state, and what it is.
struct StateTensor {
  enum class Kind {
    kParameter,  // as it is stored, or its master
    kStatistic,  // a buffer that training writes: a norm's running statistics
    kAverage,    // of a parameter
    kMoment,     // of the optimizer
    kConstant,   // a buffer that nothing writes. It may be infinite, as the masks of attention are, but not NaN
  };
  Kind kind = Kind::kParameter;
  std::string name;
  at::Tensor tensor;
};

struct NonFinite {
  StateTensor::Kind kind = StateTensor::Kind::kParameter;
  std::string name;
  at::ScalarType dtype = at::kFloat;
  int64_t count = 0;  // of its elements that are not finite; of a constant, that are NaN
};

// The first of them that has numbers which it may not have; nothing: there is none. One read of all tensors, and one
// wait for their device. Integers are always finite.
std::optional<NonFinite> FindNonFinite(const std::vector<StateTensor>& tensors);

// "the running statistic layer4.0.bn1.running_var has 512 elements that are not finite", with the format where it has
// 16 bits.
std::string Describe(const NonFinite& found);

}  // namespace ampd::amp
