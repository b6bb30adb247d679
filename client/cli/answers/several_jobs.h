#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

// Answers to a user who names several jobs in a way that a command does not accept.
namespace ampd::client {

// Returns what to type if the user's words in `rest` name several jobs in one of three ways: by the option --all, by
// `-u ann` in place of ids, or by several ids for a command that takes one. Empty if they don't. `text` is a command
// line of `command`, such as "job cancel ID". REQUIRES: `root` is ampctl itself.
std::string CallsForSeveralJobs(const CLI::App& root, const CLI::App& command, const std::string& text,
                                const std::vector<std::string>& rest);

// Returns what to do in place of an option that selects jobs, such as `job cancel -u ann`, for a command that takes
// ids. Empty if `command` takes none, or the option selects no jobs.
std::string AnswerToSelection(const std::string& command, const std::string& option, const std::string& value);

// Returns what to do in place of the option --all of a command, such as "job cancel", that takes the ids of several
// jobs: which jobs to list, and how the command gets their ids. Empty if the command does not take several jobs.
std::string AnswerToAll(const std::string& command);

// Returns `call`, a command line of `ampctl job list`, with a filter that selects only those of its jobs that the terms
// select.
std::string WithTerms(const std::string& call, const std::string& terms);

}  // namespace ampd::client
