#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

// Answers to verbs that stand without their group, under another group, or that have another name in other programs.
namespace ampd::client {

// Returns the commands of the groups that have `verb`, such as `ampctl job profile` for "profile"; commands without a
// group count, too.
std::vector<const CLI::App*> CommandsNamed(const CLI::App& root, const std::string& verb);

// Returns the command of `group` that does what `verb` does in other programs: `ampctl checkpoint download` for
// "fetch". Null if there is none.
const CLI::App* CommandForForeignVerb(const CLI::App& group, const std::string& verb);

// Whether other programs have the verb in front of a thing, as in `create secret`.
bool IsVerb(const std::string& word);

// Whether the verb only reads, so that what it reads may be a command of ampctl: "show" in `show logs`.
bool IsReadingVerb(const std::string& verb);

}  // namespace ampd::client
