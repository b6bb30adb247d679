#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "ampd/v1/precision.pb.h"
#include "graph/dtype.h"
#include "precision/preset.h"

namespace ampd::precision {

// What the optimizer does to the policy's feasibility: AdamW's small updates vanish in bf16 parameters.
enum class OptimizerKind { kSgd, kAdam };

// The format that tensors have for a name of the contract: fp32 (also for tf32), bf16 or fp16; nothing for any other.
std::optional<graph::Dtype> StorageDtype(v1::PrecisionPolicy::Dtype dtype);

// What products compute in: the policy's `compute`, or the preset's.
graph::Dtype ComputeOf(const v1::PrecisionPolicy& policy, const Preset& preset);

// The preset's formats with the policy's fields over them. INVALID_ARGUMENT with all violations for formats that
// contradict each other or that do harm (unless the policy allows that), UNIMPLEMENTED naming a field that the engine
// does not do.
absl::StatusOr<Formats> ResolveFormats(const v1::PrecisionPolicy& policy, const Preset& preset,
                                       OptimizerKind optimizer);

// Loss scaling: what the policy sets, over the preset's, over torch.amp.GradScaler's for fp16 products.
LossScaleConfig ResolveLossScale(const v1::PrecisionPolicy& policy, const Preset& preset);

}  // namespace ampd::precision
