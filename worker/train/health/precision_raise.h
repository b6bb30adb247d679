#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "precision/policy.h"

namespace ampd::train {

// By how much a run's precision is wider than that of its spec, because numbers went wrong in the spec's precision.
// Part of a checkpoint.
struct PrecisionRaise {
  std::string preset;                     // Replaces the spec's preset; empty: the spec's.
  std::vector<std::string> fp32_modules;  // Modules whose products are computed in fp32.
  std::vector<std::string> bf16_modules;  // Modules whose products are computed in bf16 instead of FP8.
  friend bool operator==(const PrecisionRaise&, const PrecisionRaise&) = default;
};

// Returns the policy with the raise applied. The policy's own rules for modules and ops remain, after those of the
// raise. If the raise has a preset, formats that the policy names are cleared, so that the preset decides them.
v1::PrecisionPolicy Raised(v1::PrecisionPolicy policy, const PrecisionRaise& raise);

// Returns the raise that follows `raise`, one step wider; nullopt if everything is fp32 already. `now`: the policy that
// `raise` resolved to. `module`: where the numbers went wrong; empty: unknown. While layers compute in FP8, the first
// raise moves only `module` to bf16, if it is one of these layers; otherwise everything moves to bf16. After that, the
// first raise moves only `module` to fp32, if it is known; otherwise everything moves from fp16 to bf16, if the device
// supports that, and from there to fp32.
std::optional<PrecisionRaise> Widen(const PrecisionRaise& raise, const precision::ResolvedPolicy& now,
                                    const std::string& module, const v1::Device& device);

// A phrase for messages, such as "in bf16" or "with middle in fp32"; empty if there is no raise.
std::string Describe(const PrecisionRaise& raise);

}  // namespace ampd::train
