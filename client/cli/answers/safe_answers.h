#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

// Keeps the advice on a command of another program from doing more than the user meant: for example, from cancelling
// jobs if the user only wanted to see which ones a command would cancel.
namespace ampd::client {

// What to print in place of advice that would do more than the user meant.
struct SafeAnswer {
  std::string text;          // empty: the advice does what the user meant
  bool is_list = false;      // `text` only lists the jobs that the user meant
  bool is_complete = false;  // no options need to be named as left out
};

// Returns the answer to give in place of `advice`, whose command ends or deletes something, if the user's `words` have
// an option that this command cannot honour: --dry-run, a filter together with ids, a filter among the options
// `dropped`, labels of workers, or a signal. REQUIRES: `root` is ampctl itself, and `words` have the form that
// PlainOptions returns (typed_options.h).
SafeAnswer InsteadOf(const CLI::App& root, const std::string& advice, const std::vector<std::string>& words,
                     const std::vector<std::string>& dropped);

// Returns the command line that lists the jobs with the names and filters in `words`.
std::string ListOfJobs(const CLI::App& root, const std::vector<std::string>& words,
                       const std::vector<std::string>& names);

// Adds the server and the tenant that the user's `words` name to both commands of each pipe `ampctl job list -q ... |
// xargs -r ampctl job ...` in the advice. Returns the result.
std::string InServerAndTenant(const CLI::App& root, const std::string& advice, const std::vector<std::string>& words);

}  // namespace ampd::client
