#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "ampd/v1/precision.pb.h"
#include "graph/dtype.h"
#include "precision/preset.h"

namespace ampd::precision {

// Whether the optimizer restricts the policy: AdamW's small updates vanish in bf16 parameters.
enum class OptimizerKind { kSgd, kAdam };

// The tensor format for a dtype name in the API: fp32 (also for tf32), bf16 or fp16; nothing for any other.
std::optional<graph::Dtype> StorageDtype(v1::PrecisionPolicy::Dtype dtype);

// The format that products compute in: the policy's `compute`, or else the preset's.
graph::Dtype ComputeOf(const v1::PrecisionPolicy& policy, const Preset& preset);

// The preset's formats, overridden by the policy's fields. Returns INVALID_ARGUMENT with all violations for formats
// that contradict each other or are harmful (unless the policy allows that), and UNIMPLEMENTED, naming the field, for
// one that the engine does not support.
absl::StatusOr<Formats> ResolveFormats(const v1::PrecisionPolicy& policy, const Preset& preset,
                                       OptimizerKind optimizer);

// Loss scaling: the policy's fields override the preset's, which override torch.amp.GradScaler's for fp16 products.
LossScaleConfig ResolveLossScale(const v1::PrecisionPolicy& policy, const Preset& preset);

}  // namespace ampd::precision
