#include "worker/amp/finite_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>

#include <cmath>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace ampd::amp {
namespace {

using Kind = StateTensor::Kind;

bool MayBeWrong(const StateTensor& state) { return state.tensor.is_floating_point() && state.tensor.numel() > 0; }

// Whether a tensor is faulty. `least` and `greatest`: its smallest and its largest element; both are NaN if any
// element is NaN. Constants may hold infinities; all other kinds must be finite.
bool IsWrong(Kind kind, double least, double greatest) {
  return kind == Kind::kConstant ? std::isnan(least) || std::isnan(greatest)
                                 : !std::isfinite(least) || !std::isfinite(greatest);
}

int64_t CountWrong(const StateTensor& state) {
  const at::Tensor wrong =
      state.kind == Kind::kConstant ? state.tensor.isnan() : at::isfinite(state.tensor).logical_not();
  return wrong.sum().item<int64_t>();
}

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kParameter:
      return "the parameter";
    case Kind::kStatistic:
      return "the running statistic";
    case Kind::kAverage:
      return "the average";
    case Kind::kMoment:
      return "the optimizer's moment";
    case Kind::kConstant:
      return "the buffer";
  }
  return "the tensor";
}

const char* FormatOf(at::ScalarType dtype) {
  return dtype == at::kHalf ? " in float16" : dtype == at::kBFloat16 ? " in bfloat16" : "";
}

}  // namespace

std::optional<NonFinite> FindNonFinite(const std::vector<StateTensor>& tensors) {
  at::NoGradGuard no_grad;
  std::vector<const StateTensor*> looked_at;
  std::vector<at::Tensor> extremes;  // Least and greatest of each tensor.
  for (const StateTensor& state : tensors) {
    if (MayBeWrong(state)) {
      const auto [least, greatest] = at::aminmax(state.tensor);
      extremes.push_back(least.to(at::kDouble));
      extremes.push_back(greatest.to(at::kDouble));
      looked_at.push_back(&state);
    }
  }
  if (looked_at.empty()) {
    return std::nullopt;
  }
  const at::Tensor known = at::stack(extremes).cpu();
  const auto* const numbers = known.const_data_ptr<double>();
  for (size_t i = 0; i < looked_at.size(); ++i) {
    const StateTensor& state = *looked_at[i];
    if (IsWrong(state.kind, numbers[2 * i], numbers[2 * i + 1])) {
      return NonFinite{state.kind, state.name, state.tensor.scalar_type(), CountWrong(state)};
    }
  }
  return std::nullopt;
}

std::string Describe(const NonFinite& found) {
  return absl::StrCat(NameOf(found.kind), " ", found.name, " has ", found.count,
                      found.count == 1 ? " element that is " : " elements that are ",
                      found.kind == Kind::kConstant ? "NaN" : "not finite", FormatOf(found.dtype));
}

}  // namespace ampd::amp
