#pragma once

#include <span>

namespace ampd::client {

// Options of other programs' commands, each with the words that replace it.
// * `command` is the command, or its first two words: "auth status". a|b stands for either.
// * `foreign` ends in % if the option has a value. `own` has a % where this value goes.
// * If `own` is a kind of value (foreign_values.h), ForeignValue converts the value to the words.
// * If `own` is empty, ampctl has nothing like the option, and the option is left out.
// An option that means the same in several programs is in foreign_options.cc.
struct ProgramOption {
  const char* command;
  const char* foreign;
  const char* own;
};

// Returns all rows. If several rows fit an option, the first one is used.
std::span<const ProgramOption> ProgramOptions();

}  // namespace ampd::client
