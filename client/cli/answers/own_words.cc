#include "client/cli/answers/own_words.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/answers/command_words.h"
#include "client/cli/answers/foreign_syntax.h"
#include "client/cli/answers/foreign_values.h"
#include "client/cli/answers/foreign_words.h"
#include "client/cli/answers/things.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

// The names and options that the user has typed, and that the suggested command line repeats.
struct OwnWords {
  struct Option {
    const CLI::Option* option;
    std::string name;
    std::string value;  // empty: a flag
  };
  Words names;
  std::vector<Option> options;
};

// Returns the option of `command` with this name; null if there is none.
const CLI::Option* OwnOption(const CLI::App& command, const std::string& name) {
  const bool is_long = name.starts_with("--");
  return FindOption(&command, name.substr(is_long ? 2 : 1), is_long);
}

// Returns the option of `command` with this name or, if there is none, the option that other programs call by this
// name. Null if there is neither.
const CLI::Option* OptionMeant(const CLI::App& command, const std::string& name) {
  if (const CLI::Option* const own = OwnOption(command, name); own != nullptr) {
    return own;
  }
  const std::string meant = OptionForForeign(name, OptionNames(command));
  return meant.empty() || meant == "--version" ? nullptr : FindOption(&command, meant.substr(2), /*is_long=*/true);
}

std::string WrittenName(const CLI::Option& option) {
  return option.get_snames().empty() ? "--" + option.get_lnames().front() : "-" + option.get_snames().front();
}

// Whether the option's own checks accept the value. Some values of other programs fail them, such as condition=complete
// for --for.
bool Accepts(const CLI::Option& option, std::string value) {
  auto* const checked = const_cast<CLI::Option*>(&option);  // CLI11 has no constant access to the checks.
  for (int index = 0;; ++index) {
    const CLI::Validator* check = nullptr;
    try {
      check = checked->get_validator(index);
    } catch (const CLI::OptionNotFound&) {
      return true;  // There are no more checks.
    }
    if (!(*check)(value).empty()) {
      return false;
    }
  }
}

// Whether the command prints its data in this format of -o. Its help ends with the list of its formats.
bool HasFormat(const CLI::App& command, const std::string& format) {
  constexpr std::string_view kIntro = "Formats (-o): ";
  const std::string footer = command.get_footer();
  const size_t begin = footer.find(kIntro);
  if (begin == std::string::npos) {
    return false;
  }
  const std::string line = footer.substr(begin + kIntro.size());
  const Words formats = absl::StrSplit(line.substr(0, line.find('\n')), ", ");
  return std::find(formats.begin(), formats.end(), format) != formats.end();
}

// Whether an option that the command does not have takes the next word as its value, as -f does in `delete -f FILE`.
bool IsValueBehind(const CLI::App& command, const std::string& name) {
  const CLI::App* root = &command;
  while (root->get_parent() != nullptr) {
    root = root->get_parent();
  }
  return TakesNextWord(name) || name == "-f" || name == "--filename" || TakesValueInAmpctl(*root, name);
}

// Splits the words that the user has typed after a command of another program into names and options of ampctl's
// `command`.
OwnWords ReadOwnWords(const CLI::App& command, const Words& words) {
  OwnWords own;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      break;  // The words after -- are a command to execute, as in `exec x -- ls`.
    }
    const bool is_folder = (word == "." || word == "..") && PathOf(command).starts_with("job ");
    if (NeedsNoQuotes(word) && !is_folder) {
      own.names.push_back(word);
    }
    if (word.size() < 2 || word.front() != '-') {
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const CLI::Option* const option = word == "--json" ? nullptr : OptionMeant(command, name);
    // -n takes a number in Slurm and a namespace in kubectl.
    const bool may_be_both = name == "-n" && OwnOption(command, name) == nullptr;
    const std::string rewritten = option == nullptr || may_be_both ? RewrittenOption(PathOf(command), name, "") : "";
    const bool takes_value = option != nullptr ? option->get_items_expected_max() > 0
                                               : absl::StrContains(rewritten, "VALUE") || IsValueBehind(command, name);
    std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (word == "--json" && HasFormat(command, "json")) {
      own.options.push_back({FindOption(&command, "output", /*is_long=*/true), "-o", "json"});
      continue;
    }
    const bool is_last = i + 1 == words.size();
    const bool is_flag = option == nullptr && !is_last && words[i + 1].size() > 1 && words[i + 1].front() == '-';
    if (takes_value && equals == std::string::npos && !is_last && !is_flag) {
      value = words[++i];
    }
    if (option != nullptr && option->get_name() == "--address" && absl::StrContains(value, "://")) {
      value = AsAddress(value);
    }
    if (!rewritten.empty()) {
      const std::string with_value = RewrittenOption(PathOf(command), name, value);
      if (value.empty() && absl::StrContains(with_value, "VALUE")) {
        continue;
      }
      const bool is_format = with_value.starts_with("-o ");
      if (!with_value.empty() && (!is_format || HasFormat(command, with_value.substr(3)))) {
        own.options.push_back({nullptr, with_value, ""});
        continue;
      }
    }
    const bool is_repeated = std::any_of(own.options.begin(), own.options.end(), [&](const OwnWords::Option& one) {
      return option != nullptr && one.option == option && one.value == value;
    });
    const bool is_format = option != nullptr && option->check_lname("output");
    const bool is_good = option != nullptr && (NeedsNoQuotes(value) || value == "-") && Accepts(*option, value) &&
                         (!is_format || HasFormat(command, value));
    if (option != nullptr && !is_repeated && (!takes_value || is_good)) {
      own.options.push_back({option, WrittenName(*option), takes_value ? value : ""});
    }
  }
  if (own.names.size() > 1 && IsThing(own.names.front())) {
    own.names.erase(own.names.begin());  // "job" in "logs job x"
  }
  return own;
}

// Removes the option from `own` and returns its value; "" if the user did not give the option.
std::string TakeOption(const CLI::Option* option, OwnWords* own) {
  const auto given = std::find_if(own->options.begin(), own->options.end(),
                                  [option](const OwnWords::Option& one) { return one.option == option; });
  if (option == nullptr || given == own->options.end()) {
    return "";
  }
  const std::string value = given->value;
  own->options.erase(given);
  return value;
}

// Combines all --filter options in `own` into one, whose filter joins theirs with AND.
void JoinFilters(OwnWords* own) {
  const std::string filter = "--filter ";
  Words terms;
  for (const OwnWords::Option& option : own->options) {
    if (option.name.starts_with(filter)) {
      const std::string term = option.name.substr(filter.size());
      const std::string bare = term.starts_with('\'') ? term.substr(1, term.size() - 2) : term;
      terms.push_back(absl::StrContains(bare, " OR ") ? absl::StrCat("(", bare, ")") : bare);
    }
  }
  if (terms.size() > 1) {
    std::erase_if(own->options, [&](const OwnWords::Option& option) { return option.name.starts_with(filter); });
    own->options.push_back({nullptr, absl::StrCat(filter, "'", absl::StrJoin(terms, " AND "), "'"), ""});
  }
}

bool MayBeLeftOut(const std::string& placeholder) { return placeholder.front() == '['; }

// Moves names from `own` to the end of `result`, in place of the placeholder: all names if `takes_all`, otherwise the
// first one. If there are no names, appends the placeholder itself, unless it may be left out.
void PutNames(const std::string& placeholder, bool takes_all, OwnWords* own, Words* result) {
  if (own->names.empty()) {
    if (!MayBeLeftOut(placeholder)) {
      result->push_back(placeholder);
    }
    return;
  }
  if (placeholder.starts_with("ID@") && !absl::StrContains(own->names.front(), "@")) {
    absl::StrAppend(&own->names.front(), placeholder.substr(2));  // x becomes x@best.
  }
  const auto end = takes_all ? own->names.end() : own->names.begin() + 1;
  result->insert(result->end(), own->names.begin(), end);
  own->names.erase(own->names.begin(), end);
}

// Returns how many placeholders in the parts of a call are to be replaced by names of the user. Not counted are the
// values of options that the user has given.
size_t NumPlaceholders(const CLI::App& command, const OwnWords& own, const Words& parts) {
  size_t num = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_behind_option = i > 0 && parts[i - 1].starts_with('-');
    const CLI::Option* const before = is_behind_option ? OptionMeant(command, parts[i - 1]) : nullptr;
    const bool is_given = std::any_of(own.options.begin(), own.options.end(), [before](const OwnWords::Option& one) {
      return before != nullptr && one.option == before && !one.value.empty();
    });
    num += IsPlaceholder(parts[i]) && !is_given ? 1 : 0;
  }
  return num;
}

// Whether an option with this placeholder takes a name, and the user's next name may be it. FILE takes only a name that
// looks like a file. Other placeholders, such as that of a priority, take no names.
bool MayBeName(const std::string& placeholder, const OwnWords& own) {
  if (placeholder == "FILE") {
    return !own.names.empty() && LooksLikeFile(own.names.front());
  }
  return !IsPlaceholder(placeholder) || placeholder == "ID" || placeholder == "NAME" || placeholder.starts_with("JOB");
}

// Moves the first name that looks like a file to the front, where the value of -f FILE is taken from.
void MoveFileToFront(OwnWords* own) {
  const auto file = std::find_if(own->names.begin(), own->names.end(), LooksLikeFile);
  if (file != own->names.end()) {
    std::rotate(own->names.begin(), file, file + 1);
  }
}

// Finds the first name on the command line that looks like a server's address. Removes it from `own` and returns it; ""
// if there is none.
std::string TakeAddress(OwnWords* own) {
  const auto address = std::find_if(own->names.begin(), own->names.end(), LooksLikeAddress);
  if (address == own->names.end()) {
    return "";
  }
  std::string taken = AsAddress(*address);
  own->names.erase(address);
  return taken;
}

// Finds the first name on the command line that is a number. Removes it from `own` and returns it; "" if there is none.
std::string TakeNumber(OwnWords* own) {
  const auto number = std::find_if(own->names.begin(), own->names.end(), [](const std::string& name) {
    return std::all_of(name.begin(), name.end(), absl::ascii_isdigit);
  });
  if (number == own->names.end()) {
    return "";
  }
  std::string taken = *number;
  own->names.erase(number);
  return taken;
}

}  // namespace

bool TakesManyNames(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      return option->get_items_expected_max() > 1;
    }
  }
  return false;
}

bool IsPlaceholder(const std::string& word) {
  const std::string name = absl::StrReplaceAll(word, {{"@best", ""}, {"@newest", ""}});
  return std::any_of(name.begin(), name.end(), absl::ascii_isupper) &&
         std::none_of(name.begin(), name.end(), absl::ascii_islower) && name.front() != '-';
}

bool TakesValueInAmpctl(const CLI::App& app, const std::string& option) {
  const bool is_long = option.starts_with("--");
  const CLI::Option* const own =
      option.size() < 2 ? nullptr : FindOption(&app, option.substr(is_long ? 2 : 1), is_long);
  if (own != nullptr && own->get_items_expected_max() > 0) {
    return true;
  }
  const std::vector<const CLI::App*> children = SubcommandsOf(app);
  return is_long && std::any_of(children.begin(), children.end(),
                                [&option](const CLI::App* child) { return TakesValueInAmpctl(*child, option); });
}

const CLI::App* CommandOf(const CLI::App& root, const std::string& text) {
  std::string unknown;
  return FindCommand(&root, absl::StrSplit(text, ' '), &unknown);
}

std::string CallOf(const CLI::App& command) {
  std::string call = PathOf(command);
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_required() && option->nonpositional()) {
      absl::StrAppend(&call, " ", WrittenName(*option), " ", option->get_option_text());
    }
  }
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      const std::string& text = option->get_option_text();
      const bool is_marked = option->get_required() || MayBeLeftOut(text);
      absl::StrAppend(&call, " ", is_marked ? text : absl::StrCat("[", text, "]"));
    }
  }
  return call;
}

std::vector<std::string> OwnNames(const CLI::App& command, const std::vector<std::string>& words) {
  return ReadOwnWords(command, words).names;
}

std::string OwnValue(const CLI::App& command, const std::string& option, const std::vector<std::string>& words) {
  const std::string written = option + " ";  // RewrittenOption returns an option and its value in one text.
  for (const OwnWords::Option& own : ReadOwnWords(command, words).options) {
    if (own.option != nullptr && own.option == OwnOption(command, option)) {
      return own.value;
    }
    if (own.name.starts_with(written)) {
      return own.name.substr(written.size());
    }
  }
  return "";
}

std::string WithOwnWords(const CLI::App& command, const std::string& text, const std::vector<std::string>& words) {
  OwnWords own = ReadOwnWords(command, words);
  const Words parts = absl::StrSplit(text, ' ');
  const bool takes_all = TakesManyNames(command) && NumPlaceholders(command, own, parts) == 1;
  const bool takes_address = std::find(parts.begin(), parts.end(), "ADDRESS") != parts.end();
  const std::string address = takes_address ? TakeAddress(&own) : "";
  Words result = {"ampctl"};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].starts_with('-')) {
      const CLI::Option* const option = OptionMeant(command, parts[i]);
      const std::string value = TakeOption(option, &own);
      result.push_back(parts[i]);
      const bool has_value = option != nullptr && option->get_items_expected_max() > 0 && i + 1 < parts.size();
      if (has_value && parts[i + 1] == "FILE") {
        MoveFileToFront(&own);
      }
      if (has_value && (!value.empty() || !MayBeName(parts[i + 1], own))) {
        const std::string number = parts[i + 1] == "N" ? TakeNumber(&own) : "";
        result.push_back(!value.empty() ? value : number.empty() ? parts[i + 1] : number);
        ++i;
      }
    } else if (parts[i] == "ADDRESS" && !address.empty()) {
      result.push_back(address);
    } else if (absl::StrContains(parts[i], "*NAME*") && !own.names.empty()) {
      result.push_back(absl::StrReplaceAll(parts[i], {{"NAME", own.names.front()}}));
      own.names.erase(own.names.begin());
    } else if (parts[i].ends_with("=NAME") && result.back() == "--filter" && !own.names.empty()) {
      const std::string column = parts[i].substr(0, parts[i].find('='));
      result.back() = FilterForColumn(column, absl::StrJoin(own.names, ","));
    } else if (IsPlaceholder(parts[i])) {
      PutNames(parts[i], takes_all, &own, &result);
    } else {
      result.push_back(parts[i]);
    }
  }
  JoinFilters(&own);
  for (const OwnWords::Option& option : own.options) {
    result.push_back(option.name);
    if (!option.value.empty()) {
      result.push_back(option.value);
    }
  }
  return absl::StrJoin(result, " ");
}

}  // namespace ampd::client
