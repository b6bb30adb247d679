#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "client/cli/command_tree.h"

// Help and usage errors of the command line.
namespace ampd::client {

// Makes the usage lines of the help name the required options, also those of subcommands that are added after this
// call.
void UseOwnUsageLine(CLI::App* root);

// Adds the last part of each command's help text: its examples, its formats, and where to find the options that all
// commands have.
void AddFooters(const CommandTree& tree);

// Prints what is wrong with the command line, the command or option that was probably meant, and what to type. Returns
// the exit code.
int FailUsage(const CommandTree& tree, const CLI::ParseError& error, int argc, char** argv);

// Prints a usage error for `unknown`, a word of the command line `words` that is not a command of `group`. Also prints
// the command to type instead: the one that users of similar programs mean by the word (foreign_words.h), or the one
// with the most similar name. Returns the exit code. `topics`: topics of `ampctl help` that the word may name too.
int FailUnknownCommand(const CLI::App& group, const std::vector<std::string>& words, const std::string& unknown,
                       const std::vector<std::string>& topics = {});

// Prints a usage error for a value of -o that the selected command does not support. Returns the exit code.
int FailFormat(const CommandTree& tree, OutputFormat format);

}  // namespace ampd::client
