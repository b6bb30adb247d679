#pragma once

#include <CLI/CLI.hpp>
#include <map>

#include "client/terminal/formats.h"

// Help and usage errors of the command line.
namespace ampd::client {

// The values of -o that each command supports.
using CommandFormats = std::map<const CLI::App*, FormatSet>;

// Appends examples, formats and options to the help text of every command below `root`.
void AddFooters(CLI::App* root, const CommandFormats& formats);

// Prints the problem of the command line, the nearest command or option, and what to type. Returns the exit code.
int FailUsage(const CLI::App& root, const CLI::ParseError& error, int argc, char** argv);

// Does the same for a value of -o that the command does not support.
int FailFormat(const CLI::App& command, OutputFormat format, const FormatSet& formats);

}  // namespace ampd::client
