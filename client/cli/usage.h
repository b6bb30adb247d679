#pragma once

#include <CLI/CLI.hpp>

#include "client/cli/command_tree.h"

// Help and usage errors of the command line.
namespace ampd::client {

// Adds the end of the help text of each command: examples, formats and where the options of all commands are.
void AddFooters(const CommandTree& tree);

// Prints the problem of the command line, the nearest command or option, and what to type. Returns the exit code.
int FailUsage(const CommandTree& tree, const CLI::ParseError& error, int argc, char** argv);

// Does the same for a value of -o that the selected command does not support.
int FailFormat(const CommandTree& tree, OutputFormat format);

}  // namespace ampd::client
