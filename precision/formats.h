#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "ampd/v1/precision.pb.h"
#include "graph/dtype.h"
#include "precision/preset.h"

namespace ampd::precision {

// The kind of optimizer, for rules that depend on it: bf16 parameters lose the small updates of Adam and AdamW.
// kNone: the job predicts, so no parameter is updated.
enum class OptimizerKind { kNone, kSgd, kAdam };

// Whether the policy may use formats that train badly: it sets allow_unsafe, or its preset has a caveat.
bool IsHarmMeant(const v1::PrecisionPolicy& policy, const Preset& preset);

// The tensor format in which numbers of an API dtype are stored. It is the dtype itself for fp32, bf16 and fp16, and
// fp32 for tf32; nothing for any other dtype.
std::optional<graph::Dtype> StorageDtype(v1::PrecisionPolicy::Dtype dtype);

// The format that products compute in: the policy's `compute`, or else the preset's.
graph::Dtype ComputeOf(const v1::PrecisionPolicy& policy, const Preset& preset);

// The preset's formats, overridden by the policy's fields. Returns INVALID_ARGUMENT with all violations if formats
// contradict each other or are harmful (unless IsHarmMeant), and UNIMPLEMENTED, naming the field, for
// a format that the engine does not support.
absl::StatusOr<Formats> ResolveFormats(const v1::PrecisionPolicy& policy, const Preset& preset,
                                       OptimizerKind optimizer);

// Returns the loss scaling of a policy. Fields that the policy does not set have the preset's values. There are two
// exceptions. If the preset has no dynamic loss scaling, but the policy asks for it or changes the compute format to
// fp16, the fields that the policy does not set have the defaults of torch.amp.GradScaler. If the policy changes the
// compute format to one other than fp16 and sets no loss scaling, the loss is not scaled.
LossScaleConfig ResolveLossScale(const v1::PrecisionPolicy& policy, const Preset& preset);

}  // namespace ampd::precision
