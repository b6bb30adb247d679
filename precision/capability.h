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

// What a device can do with a policy. This is the only place that knows; placement, admission and the trainer use it.
namespace ampd::precision {

// Why a device cannot run a policy: compute capabilities times ten, 0 for a CPU.
struct CapabilityGap {
  int needed = 0;
  int available = 0;
  std::string message;
};

// The preset in which a device would run a policy.
struct PresetChoice {
  std::string preset;
  std::string reason;
  bool emulated = false;
};

// The presets that the policy allows: the one it names, those of "auto", those it prefers, or fp32. Never empty.
std::vector<std::string> CandidatePresets(const v1::PrecisionPolicy& policy);

// The policy with one preset chosen.
v1::PrecisionPolicy WithPreset(const v1::PrecisionPolicy& policy, const std::string& preset);

// Returns nothing if the device computes in every format of the policy, including those of its module rules. A CPU
// supports all formats except tf32, some of them emulated. REQUIRES: the policy names one preset.
std::optional<CapabilityGap> FindCapabilityGap(const v1::PrecisionPolicy& policy, const v1::Device& device);

// Returns the gap as FAILED_PRECONDITION (reason CAPABILITY_TOO_LOW); UNIMPLEMENTED for a preset that does not run.
absl::Status CheckCapability(const v1::PrecisionPolicy& policy, const v1::Device& device);

// Whether the device emulates a format: the numerics are exact, but slow.
bool IsEmulated(graph::Dtype dtype, const v1::Device& device);

// The same for FP8 products. They are native on a GPU, those of blocks only at capability 9; elsewhere the quantized
// numbers are multiplied in fp32.
bool IsEmulated(const Fp8Recipe& recipe, const v1::Device& device);

// Whether any of the policy's formats is emulated. REQUIRES: the policy names one preset.
bool IsEmulated(const v1::PrecisionPolicy& policy, const v1::Device& device);

// Whether the device widens the operands of products in a 16-bit format and multiplies in fp32. A CPU does so for
// formats that it emulates, and for bf16 if its own bf16 products are slower than fp32 ones.
bool WidensProducts(graph::Dtype dtype, const v1::Device& device);

// Whether the device's own convolutions in the format leave part of the weights' gradient uninitialised if images are
// narrower than the stride: bf16 on a CPU (oneDNN 3.10, LibTorch 2.11).
bool MiscomputesNarrowConv(graph::Dtype dtype, const v1::Device& device);

// Whether the device's layer norm and group norm need weights of their input's dtype. LibTorch's CUDA kernels have one
// type for both; its CPU kernels also take fp32 weights beside a 16-bit input, and its batch norms do everywhere.
bool NormsNeedOneDtype(const v1::Device& device);

// How the device would run the policy: in the first candidate that it computes natively, or else the first that it can
// run at all. Returns nothing if it can run none; `gap` then says why not the first.
std::optional<PresetChoice> ChoosePreset(const v1::PrecisionPolicy& policy, const v1::Device& device,
                                         CapabilityGap* gap);

}  // namespace ampd::precision
