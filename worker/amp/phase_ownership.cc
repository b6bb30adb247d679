#include "worker/amp/phase_ownership.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/status_macros.h"

namespace ampd::amp {
namespace {

absl::Status BadPhases(const std::string& why) { return Error(absl::StatusCode::kInvalidArgument, "BAD_PHASES", why); }

absl::StatusOr<size_t> PhaseOf(const std::string& parameter, const std::vector<PhaseOptions>& phases) {
  std::optional<size_t> owner;
  for (size_t i = 0; i < phases.size(); ++i) {
    if (!GlobMatches(phases[i].parameters, parameter)) {
      continue;
    }
    if (owner.has_value()) {
      return BadPhases(absl::StrCat("parameter ", parameter, " belongs to the phases ", phases[*owner].name, " and ",
                                    phases[i].name, "; it must have one optimizer"));
    }
    owner = i;
  }
  if (!owner.has_value()) {
    return BadPhases(
        absl::StrCat("parameter ", parameter, " belongs to no phase; give one whose `parameters` match it"));
  }
  return *owner;
}

}  // namespace

absl::StatusOr<std::vector<size_t>> PhasesOfParameters(const graph::Graph& model,
                                                       const std::vector<PhaseOptions>& phases) {
  std::vector<size_t> phase_of;
  for (const graph::State& parameter : model.parameters()) {
    AMPD_ASSIGN_OR_RETURN(phase_of.emplace_back(), PhaseOf(parameter.name, phases));
  }
  for (size_t i = 0; i < phases.size(); ++i) {
    if (std::count(phase_of.begin(), phase_of.end(), i) == 0) {
      return BadPhases(absl::StrCat("phase ", phases[i].name, " trains nothing: no parameter matches \"",
                                    phases[i].parameters, "\""));
    }
    for (size_t other = 0; other < i; ++other) {
      if (phases[other].name == phases[i].name) {
        return BadPhases(absl::StrCat("two phases have the name \"", phases[i].name, "\""));
      }
    }
  }
  return phase_of;
}

}  // namespace ampd::amp
