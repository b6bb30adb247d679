#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/yaml/look_alike.h"
#include "base/yaml/yaml_tree.h"

namespace ampd::client {

// The advice that ProblemsText puts below the problems.
struct ProblemAdvice {
  // The command line to use when the file is correct, such as "ampctl estimate -f job.yaml"; empty if the same line
  // can't be used again, because it reads standard input.
  std::string command = {};
  std::vector<std::string> notes = {};  // what overrides replaced, which may have caused the problems
};

// Returns the problems as text for people, with the most important at the end. For each: the problem, the nearest
// name, the allowed values, and what to type. A list of allowed values is shown once. Shows at most 20 problems, and
// then how many more there are.
std::string ProblemsText(const std::vector<Problem>& problems, const ProblemAdvice& advice);

// If the problem's message quotes a character that only looks like an ASCII character, adds an explanation of this
// character to the message. `look_alikes` has these characters by their place (JobFile::look_alikes).
void ExplainLookAlikeIn(const std::map<std::string, std::vector<LookAlike>>& look_alikes, Problem* problem);

}  // namespace ampd::client
