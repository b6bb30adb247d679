#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

// Writes the command line of ampctl that a user probably wanted, with the names and options that the user has typed
// after a command of another program.
namespace ampd::client {

// Returns the command's path with its required options and its positional arguments, whose values are placeholders:
// "job submit -f FILE", "checkpoint download JOB[@STEP] [FOLDER]". A placeholder in [...] may be left out.
std::string CallOf(const CLI::App& command);

// Returns the whole command line that the user probably wanted: "ampctl job cancel j-123" for the text "job cancel ID"
// and the words {"j-123"}. `text` is a command line of `command`. Its placeholders, such as ID, are replaced by the
// names in `words`, and a placeholder in [...] without a name is left out. Options in `words` that the command has are
// appended.
std::string WithOwnWords(const CLI::App& command, const std::string& text, const std::vector<std::string>& words);

// Returns the words that are names when `words` are parsed as arguments of `command`: those that are neither options
// nor values of options.
std::vector<std::string> OwnNames(const CLI::App& command, const std::vector<std::string>& words);

// Returns the value that `words` give to an option of the command, such as "--tenant"; empty if they give none. The
// value is in quotes if a shell needs them.
std::string OwnValue(const CLI::App& command, const std::string& option, const std::vector<std::string>& words);

// Whether the command takes several names, such as `ampctl job cancel ID...`.
bool TakesManyNames(const CLI::App& command);

// Whether the word is a placeholder, such as ID, for a word of the user: all its letters are capitals, except in the
// endings "@best" and "@newest".
bool IsPlaceholder(const std::string& word);

// Whether ampctl itself or, for a long name, any of its commands has an option with this name that takes a value.
// REQUIRES: `app` is ampctl itself.
bool TakesValueInAmpctl(const CLI::App& app, const std::string& option);

// Returns the command that the first words of `text` name: `ampctl job cancel` for "job cancel ID".
const CLI::App* CommandOf(const CLI::App& root, const std::string& text);

}  // namespace ampd::client
