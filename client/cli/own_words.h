#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

// Writes commands of ampctl with the words that a user has typed behind a word of another program.
namespace ampd::client {

// Returns how the command is called, with the words that stand for what it needs: "job submit -f FILE", "checkpoint
// download JOB[@STEP] [FOLDER]". A word in [...] may be left out.
std::string CallOf(const CLI::App& command);

// Returns "ampctl" and `text`, a call of `command` such as "job cancel ID", with the user's own words in place of ID
// and the like, and with those of the user's options that the command has. A word in [...] is left out if the user has
// none for it. `words` are the names and options that the user has typed.
std::string WithOwnWords(const CLI::App& command, const std::string& text, const std::vector<std::string>& words);

// Returns those of `words` that are names, neither options nor values of options, when `command` reads them.
std::vector<std::string> OwnNames(const CLI::App& command, const std::vector<std::string>& words);

// Whether the word stands for a word of the user: it has capital letters and no others.
bool IsPlaceholder(const std::string& word);

// Whether the next word is the value of this option of another program.
bool TakesNextWord(const std::string& option);

// Returns the command to which the first words of `text` lead.
const CLI::App* CommandOf(const CLI::App& root, const std::string& text);

}  // namespace ampd::client
