#include "client/cli/answers/foreign_entry.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "client/cli/answers/foreign_syntax.h"
#include "client/cli/answers/own_words.h"
#include "client/cli/answers/things.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

bool HasOption(const Words& typed, const std::string& option) {
  return std::any_of(typed.begin(), typed.end(),
                     [&option](const std::string& word) { return word == option || word.starts_with(option + "="); });
}

}  // namespace

ForeignEntry EntryOf(const ForeignWord& word) {
  ForeignEntry entry;
  for (const absl::string_view part : absl::StrSplit(word.words, ' ')) {
    const std::string text(part);
    if (text.starts_with('-')) {
      entry.options.push_back(text);
    } else if (IsPlaceholder(text) && !absl::StrContains(text, '=')) {
      entry.needs_name = true;
      entry.needs_file = text == "FILE";
      entry.needs_job_file = text == "YAML";
      entry.needs_script = text == "SCRIPT";
      entry.needs_step = absl::StrContains(text, "@");
    } else {
      entry.fixed.push_back(text);
    }
  }
  return entry;
}

bool Fits(const Words& typed, const ForeignEntry& entry, size_t num_in_group) {
  if (entry.fixed.size() <= num_in_group || entry.fixed.size() > typed.size()) {
    return false;
  }
  for (size_t i = 0; i < entry.fixed.size(); ++i) {
    const bool is_thing = i >= num_in_group && ThingNamed(typed[i]) == entry.fixed[i];
    if (typed[i] != entry.fixed[i] && !is_thing) {
      return false;
    }
  }
  return std::all_of(entry.options.begin(), entry.options.end(),
                     [&typed](const std::string& option) { return HasOption(typed, option); });
}

bool HasNameOf(const ForeignEntry& entry, const Words& names, const Words& rest) {
  if (entry.needs_script) {
    return std::any_of(rest.begin(), rest.end(), LooksLikeScript);
  }
  if (entry.needs_job_file) {
    return std::any_of(names.begin(), names.end(), LooksLikeJobFile);
  }
  return !(entry.needs_name && names.empty()) && !(entry.needs_file && !LooksLikeFile(names.front())) &&
         !(entry.needs_step && !absl::StrContains(names.front(), "@"));
}

}  // namespace ampd::client
