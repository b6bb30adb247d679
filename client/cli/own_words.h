#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

// Writes commands of ampctl with the words that a user has typed behind a word of another program.
namespace ampd::client {

// Returns how the command is called, with the words that stand for what it needs: "job submit -f FILE", "checkpoint
// download JOB[@STEP] [FOLDER]". A word in [...] may be left out.
std::string CallOf(const CLI::App& command);

// Returns the whole command line that the user probably wanted: "ampctl job cancel j-123" for the text "job cancel ID"
// and the words {"j-123"}. `text` is a call of `command`; its placeholders, such as ID, are replaced by the names in
// `words`, and a placeholder in [...] without a name is left out. Options in `words` that the command has are appended.
std::string WithOwnWords(const CLI::App& command, const std::string& text, const std::vector<std::string>& words);

// Returns those of `words` that are names, neither options nor values of options, when `command` reads them.
std::vector<std::string> OwnNames(const CLI::App& command, const std::vector<std::string>& words);

// Returns the value that `words` have for an option of the command, such as "--tenant"; empty if they have none. A
// value that needs quotes in a shell has them.
std::string OwnValue(const CLI::App& command, const std::string& option, const std::vector<std::string>& words);

// Whether the command takes several names, such as `ampctl job cancel ID...`.
bool TakesManyNames(const CLI::App& command);

// Whether the word stands for a word of the user: it has capital letters and no others.
bool IsPlaceholder(const std::string& word);

// Whether an option of any of ampctl's commands with this name takes a value. REQUIRES: `app` is ampctl itself.
bool TakesValueInAmpctl(const CLI::App& app, const std::string& option);

// Returns the command to which the first words of `text` lead.
const CLI::App* CommandOf(const CLI::App& root, const std::string& text);

}  // namespace ampd::client
