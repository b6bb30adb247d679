#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

// Finds the command of ampctl that a user means by a verb. The verb may lack its command group, follow the wrong group,
// or be another program's name for the command.
namespace ampd::client {

// Returns all commands whose name is `verb`, inside and outside of groups: `ampctl job profile` for "profile".
std::vector<const CLI::App*> CommandsNamed(const CLI::App& root, const std::string& verb);

// Returns the command of `group` that does what `verb` does in other programs: `ampctl checkpoint download` for
// "fetch". Null if there is none.
const CLI::App* CommandForForeignVerb(const CLI::App& group, const std::string& verb);

// Whether the word is a verb that other programs put in front of the kind of a thing, as in `create secret`.
bool IsVerb(const std::string& word);

// Whether the verb only reads something. The word after such a verb may be a command of ampctl: `logs` in `show logs`.
bool IsReadingVerb(const std::string& verb);

}  // namespace ampd::client
