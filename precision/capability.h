#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "graph/dtype.h"
#include "precision/fp8_recipe.h"

namespace ampd::v1 {
class Device;
class PrecisionPolicy;
}  // namespace ampd::v1

// What a device can do of a policy. The one place that knows: placement, admission and the trainer ask here.
namespace ampd::precision {

// What a device lacks for a policy: compute capabilities times ten, 0 for a CPU.
struct CapabilityGap {
  int needed = 0;
  int available = 0;
  std::string message;
};

// The preset that a device would run a policy in.
struct PresetChoice {
  std::string preset;
  std::string reason;
  bool emulated = false;
};

// The presets that the policy leaves to choose from: the one that it names, those of "auto", those that it prefers, or
// fp32. Never empty.
std::vector<std::string> CandidatePresets(const v1::PrecisionPolicy& policy);

// The policy as it runs in one preset.
v1::PrecisionPolicy WithPreset(const v1::PrecisionPolicy& policy, const std::string& preset);

// Nothing when the device computes in every format of the policy, those of its module rules included. A CPU does in all
// but tf32, some emulated. REQUIRES: the policy names one preset.
std::optional<CapabilityGap> FindCapabilityGap(const v1::PrecisionPolicy& policy, const v1::Device& device);

// The gap as FAILED_PRECONDITION (reason CAPABILITY_TOO_LOW); UNIMPLEMENTED for a preset that does not run.
absl::Status CheckCapability(const v1::PrecisionPolicy& policy, const v1::Device& device);

// Whether the device's numerics of a format are emulated: true and slow.
bool IsEmulated(graph::Dtype dtype, const v1::Device& device);

// The same of FP8 products: native on a GPU, those of blocks only on one of capability 9; elsewhere the quantized
// numbers are multiplied in fp32.
bool IsEmulated(const Fp8Recipe& recipe, const v1::Device& device);

// Whether any of the policy's formats is. REQUIRES: the policy names one preset.
bool IsEmulated(const v1::PrecisionPolicy& policy, const v1::Device& device);

// Whether the device computes products of a 16-bit format in fp32, of operands that it widens: a CPU does so with
// formats that it emulates, and with bf16 where its own products of it are slower than those of fp32.
bool WidensProducts(graph::Dtype dtype, const v1::Device& device);

// Whether the device's own convolutions of the format leave a part of the weights' gradient as the memory happened to
// be where images are narrower than the stride: bf16 on a CPU (oneDNN 3.10, LibTorch 2.11).
bool LosesNarrowImages(graph::Dtype dtype, const v1::Device& device);

// How the device would run the policy: of the candidates the first that it computes natively, or else the first that it
// runs at all. Nothing when it runs none; `gap` then tells what it lacks for the first.
std::optional<PresetChoice> ChoosePreset(const v1::PrecisionPolicy& policy, const v1::Device& device,
                                         CapabilityGap* gap);

}  // namespace ampd::precision
