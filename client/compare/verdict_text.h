#pragma once

#include <string>
#include <vector>

#include "client/compare/verdict.h"

// The verdict in words.
namespace ampd::client {

// Sets the verdict's choice, reason, basis and notes. REQUIRES: the verdict's other fields are set.
void Explain(const std::vector<PolicyRuns>& policies, Verdict* verdict);

// Returns the standing in words: "equal within noise", "diverged". For a failure, adds the reason from `policy`.
std::string StandingText(Standing standing, const PolicyRuns& policy);

std::string SecondsText(double seconds);                       // 0.31 s, 12.3 s, 3m12s
std::string PercentText(double share);                         // -31%, +0.4%
std::string ShareText(double share, const std::string& noun);  // "31% less time" for -0.31
// Returns a difference with its noise, if that is known: "+0.0004 (noise 0.0031)".
std::string DifferenceText(const Difference& difference);

}  // namespace ampd::client
