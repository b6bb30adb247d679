#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "precision/policy.h"

namespace ampd::train {

// How much wider than its spec a run computes, after numbers went wrong in what the spec asked for. Part of a
// checkpoint.
struct PrecisionRaise {
  std::string preset;                     // instead of the spec's; empty: the spec's
  std::vector<std::string> fp32_modules;  // whose products are computed in fp32
  std::vector<std::string> bf16_modules;  // whose products are computed in bf16 instead of FP8
  friend bool operator==(const PrecisionRaise&, const PrecisionRaise&) = default;
};

// The policy with the raise in it. Its own rules for modules and ops stay, behind the raise's; formats that it names
// are left to the raise's preset.
v1::PrecisionPolicy Raised(v1::PrecisionPolicy policy, const PrecisionRaise& raise);

// The next wider one, where `now` is what `raise` resolved to. With layers in FP8: the first time `module` alone in
// bf16, if it is one of them, otherwise everything in bf16. Then: the first time `module` alone in fp32, if one can be
// named; otherwise everything from fp16 to bf16, where the device has that, and from there to fp32. Nothing when all is
// fp32 already.
std::optional<PrecisionRaise> Widen(const PrecisionRaise& raise, const precision::ResolvedPolicy& now,
                                    const std::string& module, const v1::Device& device);

// "in bf16", "with middle in fp32"; empty for no raise.
std::string Describe(const PrecisionRaise& raise);

}  // namespace ampd::train
