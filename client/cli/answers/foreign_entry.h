#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/cli/answers/foreign_words.h"

namespace ampd::client {

// The condition under which an entry in the tables of foreign words applies to the words that a user has typed. These
// tables list commands of other programs, such as kubectl, that users try in ampctl.
struct ForeignEntry {
  std::vector<std::string> fixed;    // words that must be typed as they stand
  std::vector<std::string> options;  // options that must be typed, anywhere after the fixed words
  bool needs_name = false;           // whether a name must be typed too
  bool needs_file = false;           // whether that name must look like a file's name
  bool needs_job_file = false;       // whether a name must look like a job file's
  bool needs_script = false;         // whether a typed word must look like a script
  bool needs_step = false;           // whether the name must end in a checkpoint's step, as in x@200
};

ForeignEntry EntryOf(const ForeignWord& word);

// Returns whether the typed words begin with the fixed words of `entry` and contain its options. The first
// `num_in_group` typed words are the path of a command group of ampctl; `entry` must have more fixed words than that.
bool Fits(const std::vector<std::string>& typed, const ForeignEntry& entry, size_t num_in_group);

// Returns whether the user has typed the name or script that the entry needs. `rest` holds the typed words after the
// entry's fixed words, and `names` those words of `rest` that are names and not options. A script may be any word of
// `rest`, because it may follow another program: `python x.py`.
bool HasNameOf(const ForeignEntry& entry, const std::vector<std::string>& names, const std::vector<std::string>& rest);

}  // namespace ampd::client
