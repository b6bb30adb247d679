#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "precision/policy.h"

namespace ampd::train {

// By how much a run's precision is wider than that of its spec, because numbers went wrong in the spec's precision.
// Part of a checkpoint.
struct PrecisionRaise {
  std::string preset;                     // Replaces the preset of the spec; empty: the spec's preset stays.
  std::vector<std::string> fp32_modules;  // Modules whose products are computed in fp32.
  std::vector<std::string> bf16_modules;  // Modules whose products are computed in bf16 instead of FP8.
  friend bool operator==(const PrecisionRaise&, const PrecisionRaise&) = default;
};

// Returns the policy with the raise applied. The raise's module rules come before the policy's own rules for modules
// and ops, so the result may have more rules than a user may give. If the raise has a preset, the preset decides all
// formats that the policy sets, and also the format of each module rule that does not compute in fp32. A module rule
// keeps its format of parameters only if that is fp32. A dynamic loss scale starts at the policy's initial scale or, if
// the policy sets none, at the preset's; if that is beyond the policy's floor or cap, it starts there.
v1::PrecisionPolicy Raised(v1::PrecisionPolicy policy, const PrecisionRaise& raise);

// Resolves the policy with the raise applied. If the preset of the raise bans an op that the policy's own preset
// computes in fp32, the op is still computed in fp32. Thus a policy that the device can run has no error after a raise
// that Widen returned. Errors: those of precision::ResolvePolicy.
absl::StatusOr<precision::ResolvedPolicy> ResolveRaised(const v1::PrecisionPolicy& policy, const PrecisionRaise& raise,
                                                        const graph::Graph& program, const v1::Device& device,
                                                        precision::OptimizerKind optimizer);

// Returns a raise that is one step wider than `raise`; nullopt if every product is computed in fp32 already. `now`: the
// policy that resulted from `raise`. `module`: where the numbers went wrong; empty: unknown. The steps:
//
// * While layers compute in FP8 and the policy computes in bf16, the first raise moves only `module` to bf16, if
//   `module` is an FP8 layer.
// * In all other cases with FP8 layers, everything moves to bf16, or to fp32 if the policy computes in fp32.
// * Without FP8 layers, the first raise moves only `module` to fp32, if `module` is known.
// * After that, everything moves from fp16 to bf16, if the device supports bf16, and in the end to fp32.
std::optional<PrecisionRaise> Widen(const PrecisionRaise& raise, const precision::ResolvedPolicy& now,
                                    const std::string& module, const v1::Device& device);

// A phrase for messages, such as "in bf16" or "with middle in fp32"; empty if there is no raise.
std::string Describe(const PrecisionRaise& raise);

}  // namespace ampd::train
