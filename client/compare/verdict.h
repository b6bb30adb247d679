#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "client/compare/comparison.h"

namespace ampd::client {

// How a policy's results stand to those of the baseline.
enum class Standing {
  kBaseline,
  kEqual,         // No difference exceeds the noise.
  kMoreAccurate,  // A result is better by more than the noise, and none is worse.
  kLessAccurate,  // A result is worse by more than the noise.
  kUnknown,       // Nothing was measured that could show it.
  kDiverged,      // In at least one run the loss, the gradients or the loss scale went out of range.
  kRaised,        // At least one run had to raise its precision, so it did not train under the policy alone.
  kFailed,        // At least one run failed for another reason, or was cancelled.
};

struct PolicyVerdict {
  Standing standing = Standing::kUnknown;
  PolicyDifference difference;  // Empty for the baseline, and if there is no baseline.
  bool same_device = true;      // Whether all runs had the baseline's kind of device and number of threads.
  // Whether the policy takes less time, by more than the noise and at least kLeastGain, and its time is representative:
  // formats are not emulated, and the device is the baseline's.
  bool is_faster = false;
};

// The least share of time or memory for which it is worth to change the policy.
inline constexpr double kLeastTimeGain = 0.02;
inline constexpr double kLeastMemoryGain = 0.05;

// What to take from a comparison.
struct Verdict {
  std::optional<size_t> baseline;     // Unset: no policy has a run that succeeded.
  std::optional<size_t> recommended;  // Unset: no policy can be recommended.
  std::vector<PolicyVerdict> policies;
  std::string choice;  // The first sentence: which policy to take, and what it gains.
  std::string reason;  // The second sentence: why its results can be trusted, or why no other policy is taken.
  std::string basis;   // What the intervals come from: repeats, or the noise within one run.
  std::vector<std::string> notes;     // Trades and exceptions, one sentence each.
  std::vector<std::string> warnings;  // Why the comparison may mislead, one sentence each.
};

// Decides which policy to take. The policies are compared with the baseline: the policy `baseline` or, if that is
// empty, fp32; if that has failed or does not exist, the first policy whose runs all succeeded. The rules, in this
// order:
//
//   1. Never a policy that diverged, failed, raised its precision or is less accurate than the baseline, nor one whose
//      accuracy is unknown.
//   2. Never an emulated policy, because its speed is not that of its formats, unless it is the baseline. Never a
//      policy that ran on another device than the baseline.
//   3. The fastest policy that is faster than the baseline.
//   4. Else the one with the smallest peak memory, if it saves memory and is not slower. That is only said of a policy
//      whose time is known to within 10%.
//   5. Else the first that is more accurate and not slower.
//   6. Else the baseline.
//
// `parts_that_differ`: see PartsThatDiffer. REQUIRES: there is at least one policy.
Verdict Judge(const std::vector<PolicyRuns>& policies, const std::string& baseline,
              const std::vector<std::string>& parts_that_differ);

}  // namespace ampd::client
