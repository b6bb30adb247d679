#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "precision/policy.h"

namespace ampd::train {

// How much wider than its spec a run computes, after numbers went wrong in the precision that the spec asked for. Part
// of a checkpoint.
struct PrecisionRaise {
  std::string preset;                     // Replaces the spec's preset; empty: the spec's.
  std::vector<std::string> fp32_modules;  // Modules whose products are computed in fp32.
  std::vector<std::string> bf16_modules;  // Modules whose products are computed in bf16 instead of FP8.
  friend bool operator==(const PrecisionRaise&, const PrecisionRaise&) = default;
};

// Returns the policy with the raise applied. Its own rules for modules and ops remain, after the raise's. If the raise
// has a preset, formats that the policy names are cleared, so that the preset decides them.
v1::PrecisionPolicy Raised(v1::PrecisionPolicy policy, const PrecisionRaise& raise);

// Returns the next wider raise, where `now` is what `raise` resolved to. While layers are in FP8: the first time only
// `module` moves to bf16, if it is one of them; otherwise everything moves to bf16. After that: the first time only
// `module` moves to fp32, if one is named; otherwise everything moves from fp16 to bf16, if the device supports it, and
// from there to fp32. Returns nullopt if everything is fp32 already.
std::optional<PrecisionRaise> Widen(const PrecisionRaise& raise, const precision::ResolvedPolicy& now,
                                    const std::string& module, const v1::Device& device);

// "in bf16", "with middle in fp32"; empty if there is no raise.
std::string Describe(const PrecisionRaise& raise);

}  // namespace ampd::train
