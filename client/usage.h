#pragma once

#include <CLI/CLI.hpp>

// Help and usage errors of the command line: what people read before they know the commands.
namespace ampd::client {

// Puts examples and the options of all commands behind every help text below `root`.
void AddFooters(CLI::App* root);

// Prints what is wrong with the command line, the nearest command or option, and what to type; returns the exit code.
int FailUsage(const CLI::App& root, const CLI::ParseError& error, int argc, char** argv);

}  // namespace ampd::client
