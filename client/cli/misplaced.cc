#include "client/cli/misplaced.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/answers/foreign_values.h"
#include "client/cli/answers/things.h"
#include "client/commands/filter_meant.h"
#include "client/render/shell_word.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

std::string LineOf(const Words& words) {
  Words quoted = {"ampctl"};
  std::transform(words.begin(), words.end(), std::back_inserter(quoted), ShellWord);
  return absl::StrJoin(quoted, " ");
}

bool IsOption(const std::string& word) { return word.size() > 1 && word.front() == '-' && word != "--"; }

// Whether the command, a group around it or ampctl itself has the option that is written as `word`.
bool HasOption(const CLI::App& command, const std::string& word) {
  const bool is_long = word.starts_with("--");
  const std::string name = is_long
                               ? word.substr(2, word.find('=') == std::string::npos ? word.npos : word.find('=') - 2)
                               : word.substr(1, 1);
  return FindOption(&command, name, is_long) != nullptr;
}

const CLI::App* ChildOf(const CLI::App& app, const std::string& word) {
  for (const CLI::App* child : SubcommandsOf(app)) {
    if (child->check_name(word)) {
      return child;
    }
  }
  return nullptr;
}

void AddLeaves(const CLI::App& app, std::vector<const CLI::App*>* leaves) {
  const std::vector<const CLI::App*> children = SubcommandsOf(app);
  if (children.empty()) {
    leaves->push_back(&app);
  }
  for (const CLI::App* child : children) {
    AddLeaves(*child, leaves);
  }
}

// Returns the only command below `group` that has all the options; null if there is none, or more than one.
const CLI::App* OnlyCommandWith(const CLI::App& group, const Words& options) {
  std::vector<const CLI::App*> leaves;
  AddLeaves(group, &leaves);
  std::erase_if(leaves, [&options](const CLI::App* leaf) {
    return !std::all_of(options.begin(), options.end(),
                        [leaf](const std::string& option) { return HasOption(*leaf, option); });
  });
  return leaves.size() == 1 ? leaves[0] : nullptr;
}

// Returns the command with the groups around it, from the outermost one on, without ampctl itself.
std::vector<const CLI::App*> WithGroups(const CLI::App& command) {
  std::vector<const CLI::App*> apps;
  for (const CLI::App* app = &command; app->get_parent() != nullptr; app = app->get_parent()) {
    apps.insert(apps.begin(), app);
  }
  return apps;
}

Words PathWords(const CLI::App& command) {
  Words path;
  for (const CLI::App* app : WithGroups(command)) {
    path.push_back(app->get_name());
  }
  return path;
}

// Returns the position of the word behind the command's name.
Words::const_iterator Behind(const CLI::App& command, const Words& words) {
  auto at = words.begin();
  for (const CLI::App* app : WithGroups(command)) {
    at = std::find_if(at, words.end(), [app](const std::string& word) { return app->check_name(word); });
    at = at == words.end() ? at : at + 1;
  }
  return at;
}

// Returns the words with `with` in place of the last word after the command that is `word`.
Words Replaced(const CLI::App& command, const Words& words, const std::string& word, const Words& with) {
  const auto begin = Behind(command, words);
  const auto found = std::find(words.rbegin(), Words::const_reverse_iterator(begin), word);
  if (found == Words::const_reverse_iterator(begin)) {
    return {};
  }
  Words replaced(words.begin(), found.base() - 1);
  replaced.insert(replaced.end(), with.begin(), with.end());
  replaced.insert(replaced.end(), found.base(), words.end());
  return replaced;
}

std::vector<const CLI::Option*> PositionalsOf(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

// Whether the word may be the name of a job, worker, token, preset or file. The name of a kind of thing, such as "job",
// is hardly meant as a name.
bool MayBeName(const std::string& word) {
  double number = 0;
  return !word.empty() && (absl::ascii_isalnum(word[0]) || word[0] == '.' || word[0] == '/') &&
         word.find_first_of("=,") == std::string::npos && !absl::SimpleAtod(word, &number) && !IsThing(word);
}

bool IsNumber(const std::string& word) {
  double number = 0;
  return absl::SimpleAtod(word, &number) && absl::ascii_isdigit(word[0]);
}

// Options whose values users type without the option.
constexpr struct {
  std::string_view command;
  bool is_number;  // whether the value is a number, or otherwise a name
  const char* option;
} kBareValues[] = {
    {"artifact list", false, "--job"},  {"audit", false, "--caller"}, {"audit", true, "--limit"},
    {"job list", true, "--limit"},      {"job logs", true, "--tail"}, {"job points", true, "--downsample-to"},
    {"job scale", true, "--set-scale"},
};

// Returns the option with its value for the word: {"--job", "mlp"}. `is_extra` says whether the command takes fewer
// words than there are. Empty if there is no such option.
Words OptionFor(const CLI::App& command, const std::string& word, bool is_extra) {
  const std::string path = PathOf(command);
  const size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  const CLI::Option* const named =
      equals == std::string::npos || equals + 1 == word.size() ? nullptr : FindOption(&command, key, /*is_long=*/true);
  if (named != nullptr && named->get_items_expected_max() > 0 && FindOption(&command, "set", true) == nullptr) {
    return {"--" + key, word.substr(equals + 1)};
  }
  for (const auto& [of_command, is_number, option] : kBareValues) {
    if (path == of_command && is_extra && (is_number ? IsNumber(word) : MayBeName(word))) {
      return {option, word};
    }
  }
  const bool is_address = absl::StrContains(word, ":") && LooksLikeAddress(word) && PositionalsOf(command).empty();
  return is_address ? Words{"--address", AsAddress(word)} : Words();
}

// Corrects `--sort loss desc`, where the value is one word: returns the words with "loss,desc". Empty for other words.
Words WithOrder(const std::string& extra, const Words& words) {
  const std::string lower = absl::AsciiStrToLower(extra);
  const bool is_order = lower == "desc" || lower == "asc" || lower == "descending" || lower == "ascending";
  for (size_t i = 0; is_order && i + 2 < words.size(); ++i) {
    if (words[i] == "--sort" && words[i + 2] == extra && words[i + 1].find(',') == std::string::npos) {
      Words joined = words;
      joined[i + 1] += lower.starts_with('d') ? ",desc" : ",asc";
      joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(i) + 2);
      return joined;
    }
  }
  return {};
}

}  // namespace

EarlyOption FindEarlyOption(const CLI::App& root, const Words& words) {
  EarlyOption early;
  const CLI::App* app = &root;
  Words before;  // options that stand in the right place
  Words moved;   // misplaced options with their values
  Words names;   // the misplaced options alone
  size_t i = 0;
  for (; i < words.size() && !SubcommandsOf(*app).empty(); ++i) {
    if (const CLI::App* const child = ChildOf(*app, words[i]); child != nullptr) {
      app = child;
      continue;
    }
    if (!IsOption(words[i])) {
      break;
    }
    const bool is_known = HasOption(*app, words[i]);
    Words* const kept = is_known ? &before : &moved;
    if (!is_known) {
      early.at = names.empty() ? app : early.at;
      names.push_back(words[i].substr(0, words[i].find('=')));
    }
    kept->push_back(words[i]);
    const bool has_value = i + 1 < words.size() && words[i].find('=') == std::string::npos && !IsOption(words[i + 1]) &&
                           ChildOf(*app, words[i + 1]) == nullptr;
    if (has_value) {
      kept->push_back(words[++i]);
    }
  }
  const bool is_group = !SubcommandsOf(*app).empty();
  const CLI::App* const command = names.empty()  ? nullptr
                                  : !is_group    ? app
                                  : app == &root ? nullptr
                                                 : OnlyCommandWith(*app, names);
  if (command == nullptr || !std::all_of(names.begin(), names.end(),
                                         [command](const std::string& name) { return HasOption(*command, name); })) {
    return {};
  }
  early.option = names[0];
  Words line = before;
  const Words path = PathWords(*command);
  line.insert(line.end(), path.begin(), path.end());
  line.insert(line.end(), moved.begin(), moved.end());
  line.insert(line.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  early.line = LineOf(line);
  return early;
}

std::string WithSplitCommand(const CLI::App& root, const Words& words) {
  const std::string joined =
      absl::AsciiStrToLower(absl::StrReplaceAll(words[0], {{"-", ""}, {"_", ""}, {":", ""}, {".", ""}, {"/", ""}}));
  std::vector<const CLI::App*> leaves;
  AddLeaves(root, &leaves);
  for (const CLI::App* leaf : leaves) {
    Words line = PathWords(*leaf);
    const bool is_plural =
        line.size() > 1 && joined == absl::StrCat(line[0], "s", absl::StrJoin(line.begin() + 1, line.end(), ""));
    if (line.size() > 1 && (is_plural || joined == absl::StrJoin(line, ""))) {
      line.insert(line.end(), words.begin() + 1, words.end());
      return LineOf(line);
    }
  }
  return "";
}

std::string OneLineEach(const ReadWords& read, const Words& words) {
  constexpr size_t kMostLines = 4;  // A longer answer is no help.
  const std::vector<const CLI::Option*> positionals = PositionalsOf(*read.command);
  const Words& names = read.positionals;
  const std::string& verb = read.command->get_name();
  const bool makes_one = verb == "use" || verb == "create" || verb == "add" || verb == "init";
  const bool takes_one = positionals.size() == 1 && positionals[0]->get_items_expected_max() == 1 && !makes_one;
  const std::vector<const CLI::Option*> missing = read.command->get_options([](const CLI::Option* option) {
    return option->nonpositional() && option->get_required() && option->count() == 0;
  });
  const bool are_different = std::set<std::string>(names.begin(), names.end()).size() == names.size();
  if (!takes_one || !missing.empty() || !are_different || names.size() < 2 || names.size() > kMostLines ||
      !std::all_of(names.begin(), names.end(), MayBeName)) {
    return "";
  }
  Words lines;
  for (const std::string& name : names) {
    Words line = words;
    for (const std::string& other : names) {
      line = other == name ? line : Replaced(*read.command, line, other, {});
    }
    lines.push_back(LineOf(line));
  }
  return absl::StrCat("for each of them: ", absl::StrJoin(lines, " && "));
}

std::string WithOptionForWord(const ReadWords& read, const Words& words) {
  if (read.positionals.empty() || std::find(words.begin(), words.end(), "--") != words.end()) {
    return "";
  }
  const std::string& extra = read.positionals.back();
  Words line = WithOrder(extra, words);
  if (line.empty()) {
    const Words option = OptionFor(*read.command, extra, read.positionals.size() > PositionalsOf(*read.command).size());
    const bool is_given =
        !option.empty() && std::any_of(words.begin(), words.end(), [&option](const std::string& word) {
          return word == option[0] || word.starts_with(option[0] + "=");
        });
    line = option.empty() || is_given ? Words() : Replaced(*read.command, words, extra, option);
  }
  return line.empty() ? "" : LineOf(line);
}

std::string JoinedFilters(const Words& words) {
  Words terms;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool has_value = words[i].starts_with("--filter=");
    const bool has_next = words[i] == "--filter" && i + 1 < words.size();
    std::string filter = has_value  ? words[i].substr(std::string_view("--filter=").size())
                         : has_next ? words[i + 1]
                                    : "";
    if (filter.empty()) {
      continue;
    }
    // The filter is written between single quotes, so it must not contain any.
    filter = absl::StrContains(filter, "'") ? ConvertFilter(filter).filter : filter;
    const bool has_or = absl::StrContains(absl::AsciiStrToUpper(filter), " OR ");
    terms.push_back(has_or ? absl::StrCat("(", filter, ")") : filter);
  }
  const std::string all = absl::StrJoin(terms, " AND ");
  const bool is_whole = std::find(terms.begin(), terms.end(), "") == terms.end();
  return terms.size() < 2 || !is_whole || absl::StrContains(all, "'") ? "" : absl::StrCat("--filter '", all, "'");
}

}  // namespace ampd::client
