#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

// Recognizes and converts the syntax of other programs, such as kubectl and Slurm: options with other names, TYPE/NAME,
// KEY=VALUE.
namespace ampd::client {

// Whether the word is one of `words`, which have | between them.
bool IsOneOf(const std::string& word, std::string_view words);

// Whether the word looks like the name of a file.
bool LooksLikeFile(const std::string& word);

// Whether the word looks like the name of a job file.
bool LooksLikeJobFile(const std::string& word);

// Whether the word is a program or a script, such as train.py, which ampd does not run.
bool LooksLikeScript(const std::string& word);

// Whether `word` is the script that Slurm's `command` runs. The words behind it are options of the script.
bool BeginsScript(const std::string& command, const std::string& word);

// Whether the word is the name of another program, so that the next words are that program's own: `kubectl` in `ampctl
// kubectl get pods`.
bool IsProgram(const std::string& word);

// Converts the words to the notation of the tables of foreign words. Options are replaced by the options of ampctl that
// mean the same, and all options move behind the names. `words` begin with a verb, a thing or a program. Examples:
//   get job/x             -> get job x
//   squeue -h -n x        -> squeue --no-headers --name x
//   scontrol update JobId=5 Priority=10  -> scontrol update job 5 --priority 10
// REQUIRES: `root` is ampctl itself, and `words` is not empty.
std::vector<std::string> InOwnSyntax(const CLI::App& root, const std::vector<std::string>& words);

}  // namespace ampd::client
