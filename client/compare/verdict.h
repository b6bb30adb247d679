#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "client/compare/comparison.h"

namespace ampd::client {

// How a policy's results compare with those of the baseline.
enum class Standing {
  kBaseline,
  kEqual,         // No difference exceeds the noise.
  kMoreAccurate,  // A result is better by more than the noise, and none is worse.
  kLessAccurate,  // A result is worse by more than the noise.
  kUnknown,       // No result was measured well enough to tell.
  kDiverged,      // In at least one run the loss, the gradients or the loss scale went out of range.
  kRaised,        // At least one run had to raise its precision, so the policy did not determine the results alone.
  kFailed,        // At least one run failed for another reason, or was cancelled.
};

struct PolicyVerdict {
  Standing standing = Standing::kUnknown;
  PolicyDifference difference;  // All values are unset for the baseline, and if there is no baseline.
  bool same_device = true;      // Whether the policy had the baseline's kinds of devices and numbers of threads.
  // Whether the policy takes less time than the baseline, by more than the noise and by at least kLeastTimeGain. False
  // if the times are not comparable, because formats are emulated or the device is not the baseline's.
  bool is_faster = false;
};

// The smallest gain of time or memory, as a share of the baseline's value, that makes a change of the policy
// worthwhile.
inline constexpr double kLeastTimeGain = 0.02;
inline constexpr double kLeastMemoryGain = 0.05;

// The conclusions from a comparison.
struct Verdict {
  std::optional<size_t> baseline;     // Unset: in every policy, a run failed, diverged or raised its precision.
  std::optional<size_t> recommended;  // Unset: no policy can be recommended.
  std::vector<PolicyVerdict> policies;
  std::string choice;  // The first sentence: which policy to choose, and what it gains.
  std::string reason;  // The second sentence: why its results can be trusted, or why no other policy is chosen.
  std::string basis;   // The source of the intervals: repeats, or the noise within one run.
  std::vector<std::string> notes;     // Trade-offs and exceptions, one sentence each.
  std::vector<std::string> warnings;  // Why the comparison may mislead, one sentence each.
};

// Decides which policy to recommend, by a comparison with the baseline. The baseline is the policy `baseline` or, if
// that is empty, fp32. If this policy does not exist, or one of its runs failed, diverged or raised its precision, the
// baseline is the first policy without such runs that is not emulated or, if there is none, the first without such
// runs. The rules, in this order:
//
//   1. Never a policy that diverged, failed, raised its precision or is less accurate than the baseline, nor one whose
//      accuracy is unknown.
//   2. Never an emulated policy unless it is the baseline, because emulation does not have the speed of the formats.
//      Never a policy that ran on a device other than the baseline's.
//   3. The fastest policy that is faster than the baseline.
//   4. Otherwise the policy with the smallest peak memory, if it saves memory and is not slower than the baseline. To
//      count as not slower, its time must be known to within 10%.
//   5. Otherwise the first policy that is more accurate than the baseline and not slower.
//   6. Otherwise the baseline.
//
// `parts_that_differ`: see PartsThatDiffer. REQUIRES: there is at least one policy.
Verdict Judge(const std::vector<PolicyRuns>& policies, const std::string& baseline,
              const std::vector<std::string>& parts_that_differ);

}  // namespace ampd::client
