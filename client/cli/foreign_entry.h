#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/cli/foreign_words.h"

namespace ampd::client {

// What a user must have typed, so that an entry of the table of foreign words (commands of other programs) fits.
struct ForeignEntry {
  std::vector<std::string> fixed;    // words that must be typed as they stand
  std::vector<std::string> options;  // options that must be typed anywhere behind them
  bool needs_name = false;           // whether a name must be typed, too
  bool needs_file = false;           // whether that name must look like that of a file
  bool needs_script = false;         // whether a word must look like a script
  bool needs_step = false;           // whether the name must have a step, as x@200
};

ForeignEntry EntryOf(const ForeignWord& word);

// Whether the typed words begin with the fixed ones of `entry` and have its options. The first `num_in_group` of them
// are the path of a group.
bool Fits(const std::vector<std::string>& typed, const ForeignEntry& entry, size_t num_in_group);

// Whether the user has typed the name that the entry needs. `rest` has the words behind the fixed ones, and `names`
// those of them that are names. A script may have words of its own in front: `python x.py`.
bool HasNameOf(const ForeignEntry& entry, const std::vector<std::string>& names, const std::vector<std::string>& rest);

}  // namespace ampd::client
