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

// Decides whether a device can run a policy, and how. Placement, admission and the trainer call these functions and
// have no rules of their own.
namespace ampd::precision {

// The reason why a device cannot run a policy. `needed` and `available` are CUDA compute capabilities times ten;
// `available` is 0 for a CPU, and both are 0 for an unknown preset.
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

// The presets that the policy allows, in order of preference: the one that it names, those that "auto" stands for, or
// those in `prefer`; fp32 if it sets none of these. Never empty.
std::vector<std::string> CandidatePresets(const v1::PrecisionPolicy& policy);

// Returns the policy with `preset` as its only preset.
v1::PrecisionPolicy WithPreset(const v1::PrecisionPolicy& policy, const std::string& preset);

// Returns why the device can't compute in every format of the policy, including those of its module rules; nothing if
// it can. A CPU supports all formats except tf32, some of them emulated. REQUIRES: the policy names one preset.
std::optional<CapabilityGap> FindCapabilityGap(const v1::PrecisionPolicy& policy, const v1::Device& device);

// Returns OK if FindCapabilityGap finds no gap, and the gap as FAILED_PRECONDITION (reason CAPABILITY_TOO_LOW)
// otherwise. UNIMPLEMENTED for a preset that does not run.
absl::Status CheckCapability(const v1::PrecisionPolicy& policy, const v1::Device& device);

// Whether the device emulates a format: it gives the results of the format, but computes them slowly.
bool IsEmulated(graph::Dtype dtype, const v1::Device& device);

// Whether the device emulates the products of an FP8 recipe by multiplying the quantized numbers in fp32. A GPU has
// native FP8 products, but with one scale per block only if its compute capability is 9.x.
bool IsEmulated(const Fp8Recipe& recipe, const v1::Device& device);

// Whether any of the policy's formats is emulated. REQUIRES: the policy names one preset.
bool IsEmulated(const v1::PrecisionPolicy& policy, const v1::Device& device);

// Whether the device computes products in this 16-bit format by converting the operands to fp32 and multiplying in
// fp32. A CPU does so for formats that it emulates, and for bf16 if its own bf16 products are slower than fp32 ones.
bool WidensProducts(graph::Dtype dtype, const v1::Device& device);

// Whether the device's library computes convolutions in this format wrongly if images are narrower than the stride:
// part of the weights' gradient stays uninitialised. True for bf16 on a CPU (oneDNN 3.10, LibTorch 2.11).
bool MiscomputesNarrowConv(graph::Dtype dtype, const v1::Device& device);

// Whether LibTorch's layer norm and group norm on the device need weights that have their input's dtype. Its CUDA
// kernels need this. Its CPU kernels, and its batch norms on all devices, also accept fp32 weights with a 16-bit input.
bool NormsNeedOneDtype(const v1::Device& device);

// Whether the device has no deterministic algorithm for adaptive average pools (graph/determinism.h).
bool AdaptivePoolsVary(const v1::Device& device);

// Whether the device has an op that computes a linear layer together with the cross entropy of its results
// (precision/linear_cross_entropy.h). Every GPU does.
bool FusesLinearCrossEntropy(const v1::Device& device);

// Whether ampd's own kernels compute layer norms on the device, together with the additions and casts around them
// (precision/fused_norms.h). Every GPU has them.
bool FusesLayerNorms(const v1::Device& device);

// Whether the device has an op that computes a linear layer with a bias and its gradients (precision/fused_linears.h).
// Every GPU does.
bool FusesLinears(const v1::Device& device);

// Chooses the preset in which the device would run the policy: the first candidate (CandidatePresets) that it computes
// natively, or else the first that it can run at all. If it can run none, returns nothing and sets `gap` to the reason
// for the first candidate.
std::optional<PresetChoice> ChoosePreset(const v1::PrecisionPolicy& policy, const v1::Device& device,
                                         CapabilityGap* gap);

}  // namespace ampd::precision
