#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

// Answers for jobs that no single call of a command names.
namespace ampd::client {

// Returns what the user's words demand that no single call of `command` does: the option --all, `-u ann` in place of
// ids, or several jobs for a command that shows one. Empty: there is no such demand. `text` is a call of the command,
// and `rest` has the user's words. REQUIRES: `root` is ampctl itself.
std::string CallsForSeveralJobs(const CLI::App& root, const CLI::App& command, const std::string& text,
                                const std::vector<std::string>& rest);

// Returns what to do in place of an option that selects jobs, such as `job cancel -u ann`, for a command that takes
// ids. Empty if `command` takes none, or the option selects no jobs.
std::string AnswerToSelection(const std::string& command, const std::string& option, const std::string& value);

}  // namespace ampd::client
