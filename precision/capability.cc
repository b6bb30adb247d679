#include "precision/capability.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "base/error.h"
#include "precision/formats.h"
#include "precision/fp8.h"
#include "precision/preset.h"

namespace ampd::precision {
namespace {

using graph::Dtype;

// The compute capability, times ten, that a GPU needs for a format.
int NeededCapability(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBFloat16:
      return 80;
    case Dtype::kFloat16:
      return 70;
    case Dtype::kFloat8E4M3:
    case Dtype::kFloat8E5M2:
      return 89;
    default:
      return 0;
  }
}

constexpr int kTf32Capability = 80;

bool Has(const v1::Device& device, std::string_view instruction_set) {
  return std::find(device.instruction_sets().begin(), device.instruction_sets().end(), instruction_set) !=
         device.instruction_sets().end();
}

// Whether the CPU's own bf16 products are slower than fp32 products. Intel's cores with avx512_fp16 are designed to
// multiply bf16 in AMX; their VDPBF16PS does half as many products per second as fp32 multiply-adds. If a virtual
// machine hides AMX, only VDPBF16PS is left.
bool HasSlowBf16Products(const v1::Device& cpu) {
  return absl::StrContains(cpu.name(), "Intel") && Has(cpu, "avx512_fp16") && !Has(cpu, "amx_bf16");
}

std::string Version(int capability) { return absl::StrCat(capability / 10, ".", capability % 10); }

// The formats in which a policy computes products, except FP8.
std::vector<Dtype> ComputeDtypes(const v1::PrecisionPolicy& policy, const Preset& preset) {
  std::vector<Dtype> dtypes = {ComputeOf(policy, preset)};
  for (const v1::ModuleRule& rule : policy.module_rules()) {
    if (const auto dtype = StorageDtype(rule.compute()); dtype.has_value()) {
      dtypes.push_back(*dtype);
    }
  }
  return dtypes;
}

bool UsesTf32(const v1::PrecisionPolicy& policy, const Preset& preset) {
  return preset.formats.tf32_matmul || policy.compute() == v1::PrecisionPolicy::tf32 ||
         policy.fp32_matmul() == v1::PrecisionPolicy::tf32;
}

}  // namespace

std::vector<std::string> CandidatePresets(const v1::PrecisionPolicy& policy) {
  if (policy.preset() == kAuto) {
    return {AutoPresets().begin(), AutoPresets().end()};
  }
  if (!policy.preset().empty()) {
    return {policy.preset()};
  }
  if (policy.prefer_size() > 0) {
    return {policy.prefer().begin(), policy.prefer().end()};
  }
  return {"fp32"};
}

v1::PrecisionPolicy WithPreset(const v1::PrecisionPolicy& policy, const std::string& preset) {
  v1::PrecisionPolicy named = policy;
  named.clear_prefer();
  named.set_preset(preset);
  return named;
}

std::optional<CapabilityGap> FindCapabilityGap(const v1::PrecisionPolicy& policy, const v1::Device& device) {
  const Preset* preset = FindPreset(policy.preset());
  if (preset == nullptr) {
    return CapabilityGap{0, 0, absl::StrCat(policy.preset(), " is not supported")};
  }
  const bool tf32 = UsesTf32(policy, *preset);
  int needed = tf32 ? kTf32Capability : 0;
  for (const Dtype dtype : ComputeDtypes(policy, *preset)) {
    needed = std::max(needed, NeededCapability(dtype));
  }
  if (const auto recipe = ResolveFp8Recipe(policy, *preset); recipe.has_value()) {
    needed = std::max(needed, NeededCapability(recipe->forward));
  }
  const bool is_gpu = device.kind() == v1::Device::GPU;
  const int available = is_gpu ? device.capability_major() * 10 + device.capability_minor() : 0;
  if (is_gpu ? available >= needed : !tf32) {
    return std::nullopt;
  }
  const std::string needs = absl::StrCat(policy.preset(), " needs ", is_gpu ? "" : "a GPU of ", "compute capability ",
                                         Version(needed), "; ", device.id());
  return CapabilityGap{needed, available, needs + (is_gpu ? absl::StrCat(" has ", Version(available)) : " is a CPU")};
}

absl::Status CheckCapability(const v1::PrecisionPolicy& policy, const v1::Device& device) {
  if (FindPreset(policy.preset()) == nullptr) {
    return UnsupportedField("precision.preset", absl::StrCat("\"", policy.preset(), "\" does not run"));
  }
  const std::optional<CapabilityGap> gap = FindCapabilityGap(policy, device);
  return gap.has_value() ? Error(absl::StatusCode::kFailedPrecondition, "CAPABILITY_TOO_LOW", gap->message)
                         : absl::OkStatus();
}

bool IsEmulated(Dtype dtype, const v1::Device& device) {
  if (device.kind() == v1::Device::GPU) {
    return false;
  }
  if (dtype == Dtype::kBFloat16) {
    return !Has(device, "avx512_bf16") && !Has(device, "amx_bf16");
  }
  return dtype == Dtype::kFloat16;
}

bool IsEmulated(const Fp8Recipe& recipe, const v1::Device& device) {
  return device.kind() != v1::Device::GPU ||
         (recipe.scaling == Fp8Recipe::Scaling::kBlock && device.capability_major() != kFp8BlockCapabilityMajor);
}

bool WidensProducts(Dtype dtype, const v1::Device& device) {
  return device.kind() != v1::Device::GPU && (dtype == Dtype::kFloat16 || dtype == Dtype::kBFloat16) &&
         (IsEmulated(dtype, device) || (dtype == Dtype::kBFloat16 && HasSlowBf16Products(device)));
}

bool MiscomputesNarrowConv(Dtype dtype, const v1::Device& device) {
  return device.kind() != v1::Device::GPU && dtype == Dtype::kBFloat16;
}

bool NormsNeedOneDtype(const v1::Device& device) { return device.kind() == v1::Device::GPU; }

bool AdaptivePoolsVary(const v1::Device& device) { return device.kind() == v1::Device::GPU; }

bool FusesLinearCrossEntropy(const v1::Device& device) { return device.kind() == v1::Device::GPU; }

bool FusesLayerNorms(const v1::Device& device) { return device.kind() == v1::Device::GPU; }

bool FusesLinears(const v1::Device& device) { return device.kind() == v1::Device::GPU; }

bool IsEmulated(const v1::PrecisionPolicy& policy, const v1::Device& device) {
  const Preset* preset = FindPreset(policy.preset());
  if (preset == nullptr) {
    return false;
  }
  if (const auto recipe = ResolveFp8Recipe(policy, *preset); recipe.has_value() && IsEmulated(*recipe, device)) {
    return true;
  }
  const std::vector<Dtype> dtypes = ComputeDtypes(policy, *preset);
  return std::any_of(dtypes.begin(), dtypes.end(), [&](Dtype dtype) { return IsEmulated(dtype, device); });
}

std::optional<PresetChoice> ChoosePreset(const v1::PrecisionPolicy& policy, const v1::Device& device,
                                         CapabilityGap* gap) {
  const std::vector<std::string> candidates = CandidatePresets(policy);
  const bool one = candidates.size() == 1;
  const char* how = policy.preset() == kAuto ? "auto" : "preferred";
  std::optional<PresetChoice> emulated;
  std::string passed_over;
  for (const std::string& preset : candidates) {
    const v1::PrecisionPolicy named = WithPreset(policy, preset);
    if (const auto found = FindCapabilityGap(named, device); found.has_value()) {
      *gap = passed_over.empty() ? *found : *gap;
      absl::StrAppend(&passed_over, "; ", found->message);
    } else if (!IsEmulated(named, device)) {
      return PresetChoice{preset, one ? "asked for" : absl::StrCat(how, passed_over), false};
    } else if (!emulated.has_value()) {
      emulated = {preset,
                  one ? "asked for" : absl::StrCat(how, ", and no preset of the list is native on ", device.id()),
                  true};
      absl::StrAppend(&passed_over, "; ", preset, " would be emulated");
    }
  }
  return emulated;
}

}  // namespace ampd::precision
