#include "precision/bare_parameters.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ampd/v1/precision.pb.h"
#include "base/error.h"

namespace ampd::precision {

using graph::Dtype;

std::vector<Dtype> BareDtypes(const ResolvedPolicy& resolved) {
  std::vector<Dtype> dtypes;
  const auto take = [&](Dtype dtype, Masters master) {
    const bool is_stochastic = resolved.formats.stochastic_rounding && dtype == Dtype::kBFloat16;
    if (dtype != Dtype::kFloat32 && master == Masters::kNone && !is_stochastic &&
        std::find(dtypes.begin(), dtypes.end(), dtype) == dtypes.end()) {
      dtypes.push_back(dtype);
    }
  };
  take(resolved.formats.parameter, resolved.formats.master);  // The graph may have no parameters yet.
  for (const ParameterRow& row : resolved.parameters) {
    take(row.dtype, row.master);
  }
  return dtypes;
}

absl::Status RefuseBareFp16(const v1::PrecisionPolicy& policy, OptimizerKind optimizer,
                            const ResolvedPolicy& resolved) {
  if (optimizer == OptimizerKind::kNone || IsHarmMeant(policy, *FindPreset(resolved.preset))) {
    return absl::OkStatus();
  }
  for (const ParameterRow& row : resolved.parameters) {
    if (row.dtype == Dtype::kFloat16 && row.master == Masters::kNone) {
      return InvalidFields({{"precision.module_rules",
                             absl::StrCat("store ", row.name,
                                          " in fp16, and precision.master is none; fp16 parameters need a fp32 master. "
                                          "Give the rule `parameter: fp32`, or set precision.master to fp32")}});
    }
  }
  return absl::OkStatus();
}

}  // namespace ampd::precision
