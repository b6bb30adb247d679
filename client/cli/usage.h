#pragma once

#include <CLI/CLI.hpp>
#include <map>

#include "client/terminal/formats.h"

// Help and usage errors of the command line: what people read before they know the commands.
namespace ampd::client {

// The values of -o that each command has.
using CommandFormats = std::map<const CLI::App*, FormatSet>;

// Puts examples, the formats and the options of all commands behind every help text below `root`.
void AddFooters(CLI::App* root, const CommandFormats& formats);

// Prints what is wrong with the command line, the nearest command or option, and what to type; returns the exit code.
int FailUsage(const CLI::App& root, const CLI::ParseError& error, int argc, char** argv);

// The same for a value of -o that the command does not have.
int FailFormat(const CLI::App& command, OutputFormat format, const FormatSet& formats);

}  // namespace ampd::client
