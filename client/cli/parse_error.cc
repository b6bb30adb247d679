#include "client/cli/parse_error.h"

#include <unistd.h>

#include <algorithm>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/nearest.h"
#include "client/cli/answers/foreign_syntax.h"
#include "client/cli/answers/foreign_values.h"
#include "client/cli/answers/foreign_words.h"
#include "client/cli/misplaced.h"

namespace ampd::client {
namespace {

// Returns the name of a positional argument without the marks of the help: "ID" for "ID..." and "[ID]".
std::string PlainName(const std::string& text) {
  const std::string name = absl::StrReplaceAll(text, {{"...", ""}});
  return name.starts_with('[') && name.ends_with(']') ? name.substr(1, name.size() - 2) : name;
}

// Returns how the option is written with its value: "--file FILE", or "ID" for a positional argument.
std::string WrittenAs(const CommandTree& tree, const CLI::Option& option) {
  const Argument* const argument = tree.ArgumentOf(&option);
  const std::string text = argument == nullptr ? "" : argument->text;
  if (option.get_positional() && !text.empty()) {
    return PlainName(text);
  }
  return text.empty() || option.get_items_expected_max() == 0 ? option.get_name()
                                                              : absl::StrCat(option.get_name(), " ", text);
}

// Returns all options that may follow the command.
std::vector<const CLI::Option*> OptionsOf(const CLI::App& command) {
  std::vector<const CLI::Option*> options;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      options.push_back(option);
    }
  }
  return options;
}

std::string NameOf(const CLI::Option& option) {
  return option.get_snames().empty() ? option.get_name() : "-" + option.get_snames().front();
}

int NumRequiredPositionals(const CLI::App& command) {
  return static_cast<int>(
      command.get_options([](const CLI::Option* option) { return option->get_positional() && option->get_required(); })
          .size());
}

// Corrects a command line that has the values of the options `missing` but not the options: returns `ampctl job submit
// -f job.yaml` for `ampctl job submit job.yaml`. Of the positional words in `read`, as many as the command requires
// stay where they are, and the words after them become the values. Empty if the command line can't be corrected in this
// way.
std::string WithOptions(const ReadWords& read, const std::vector<const CLI::Option*>& missing,
                        const std::vector<std::string>& words) {
  const CLI::App& command = *read.command;
  const size_t num_needed = static_cast<size_t>(NumRequiredPositionals(command));
  const bool has_assignment = std::any_of(read.positionals.begin(), read.positionals.end(),
                                          [](const std::string& word) { return absl::StrContains(word, "="); });
  if (read.positionals.size() <= num_needed || has_assignment) {
    return "";
  }
  const size_t num_values = std::min(read.positionals.size() - num_needed, missing.size());
  const auto first = read.positionals.begin() + static_cast<std::ptrdiff_t>(num_needed);
  std::vector<std::string> values(first, first + static_cast<std::ptrdiff_t>(num_values));
  std::vector<std::string> line;
  for (size_t i = 0; i < missing.size(); ++i) {
    line.push_back(NameOf(*missing[i]));
    line.push_back(i < values.size() ? values[i] : PlainName(missing[i]->get_option_text()));
  }
  const auto begin = std::find(words.begin(), words.end(), command.get_name());
  for (auto word = begin == words.end() ? begin : begin + 1; word != words.end(); ++word) {
    if (const auto value = std::find(values.begin(), values.end(), *word); value != values.end()) {
      values.erase(value);
    } else {
      line.push_back(*word);
    }
  }
  return CommandLine(FullName(command), line);
}

// Names the required arguments that are missing, with the command line that was probably meant.
std::string Missing(const CommandTree& tree, const ReadWords& read, const std::vector<std::string>& words) {
  const CLI::App& command = *read.command;
  std::vector<std::string> names;
  std::vector<const CLI::Option*> missing;
  bool lacks_only_options = true;
  for (const CLI::Option* option : OptionsOf(command)) {
    if (option->get_required() && option->count() == 0) {
      names.push_back(WrittenAs(tree, *option));
      missing.push_back(option);
      lacks_only_options = lacks_only_options && option->nonpositional();
    }
  }
  std::string line = lacks_only_options ? WithOptions(read, missing, words) : "";
  const bool has_only_address = names == std::vector<std::string>{"ADDRESS"} && read.positionals.size() == 1 &&
                                LooksLikeAddress(read.positionals.front());
  if (has_only_address && NeedsNoQuotes(read.positionals.front())) {
    names.insert(names.begin(), "NAME");
    line = absl::StrCat(FullName(command), " prod ", AsAddress(read.positionals.front()));
  }
  const bool is_script = names == std::vector<std::string>{"--file FILE"} && !read.positionals.empty() &&
                         LooksLikeScript(read.positionals.front());
  if (is_script && PathOf(command) == "job submit") {
    return absl::StrCat(FullName(command), " needs ", names[0],
                        "; ampd trains from job files, not scripts; to write a job file to start from: ampctl init");
  }
  // A word that is neither a file nor looks like one may be the name of a job.
  const bool lacks_file = names == std::vector<std::string>{"--file FILE"} && !read.positionals.empty() &&
                          !LooksLikeFile(read.positionals.back()) && access(read.positionals.back().c_str(), F_OK) != 0;
  if (lacks_file) {
    return absl::StrCat(FullName(command), " needs ", names[0], "; there is no file '", read.positionals.back(),
                        "' here; to write a job file to start from: ampctl init");
  }
  return absl::StrCat(FullName(command), " needs ", absl::StrJoin(names, " and "),
                      line.empty() ? "" : absl::StrCat("; did you mean: ", line));
}

// Explains that an option has no value, or more values than it takes.
std::string WrongCount(const CommandTree& tree, const CLI::ParseError& error, const ReadWords& read,
                       const std::vector<std::string>& words) {
  for (const CLI::Option* option : OptionsOf(*read.command)) {
    const bool is_open = option == read.open || absl::StartsWith(error.what(), option->get_name() + ":");
    const bool takes_value = option->get_items_expected_max() > 0;
    if (takes_value && option->count() > 1 && static_cast<int>(option->count()) > option->get_items_expected_max()) {
      const std::string joined = option->get_name() == "--filter" ? JoinedFilters(words) : "";
      return absl::StrCat(option->get_name(), " is given ", option->count(), " times; give it once",
                          joined.empty() ? "" : ", with AND between its terms: " + joined);
    }
    if (takes_value && is_open) {
      return absl::StrCat(option->get_name(), " needs a value: ", WrittenAs(tree, *option));
    }
  }
  return absl::StrCat(FullName(*read.command), " got an option with too few or too many values");
}

// Returns the error text for a flag that was given a value; empty if no flag was.
std::string FlagWithValue(const CLI::App& command, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const CLI::Option* const option = equals != std::string::npos && word.starts_with("--")
                                          ? FindOption(&command, word.substr(2, equals - 2), true)
                                          : nullptr;
    if (option != nullptr && option->get_items_expected_max() == 0) {
      return absl::StrCat(option->get_name(), " takes no value, but has '", word.substr(equals + 1), "'");
    }
  }
  return "";
}

// Returns a command for each checkpoint of a line such as `ampctl checkpoint delete JOB 10 20`. Empty for any other
// line.
std::string OneCheckpointEach(const ReadWords& read) {
  constexpr size_t kMostCalls = 4;
  const std::string path = PathOf(*read.command);
  const std::vector<std::string>& words = read.positionals;
  const bool takes_one = path == "checkpoint delete" || path == "checkpoint show";
  if (!takes_one || words.size() < 2 || words.size() > kMostCalls + 1 ||
      !std::all_of(words.begin(), words.end(), NeedsNoQuotes)) {
    return "";
  }
  const auto is_step = [](const std::string& word) {
    return std::all_of(word.begin(), word.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
  };
  std::vector<std::string> calls;
  if (!absl::StrContains(words.front(), "@") && std::all_of(words.begin() + 1, words.end(), is_step)) {
    for (size_t i = 1; i < words.size(); ++i) {
      calls.push_back(absl::StrCat("ampctl ", path, " ", words.front(), "@", words[i]));
    }
  }
  return absl::StrJoin(calls, " && ");
}

std::string TooManyWords(const CommandTree& tree, const ReadWords& read, const std::vector<std::string>& words) {
  std::vector<std::string> taken;
  for (const CLI::Option* option : read.command->get_options()) {
    if (option->get_positional()) {
      const std::string name = WrittenAs(tree, *option);
      taken.push_back(option->get_required() ? name : absl::StrCat("[", name, "]"));
    }
  }
  const std::vector<std::string> extra = tree.root()->remaining(/*recurse=*/true);
  const bool is_option = !extra.empty() && extra.front().starts_with('-');
  const bool ends_options = is_option && std::find(words.begin(), words.end(), "--") != words.end();
  const std::string shown = extra.empty() ? ""
                                          : absl::StrCat("; '", extra.front(), "' is one word too many",
                                                         ends_options ? "; leave out '--', because a word after it "
                                                                        "is never an option"
                                                                      : "");
  if (const std::string each = OneCheckpointEach(read); !each.empty()) {
    return absl::StrCat(FullName(*read.command), " takes one checkpoint at a time: ", each);
  }
  return absl::StrCat(FullName(*read.command), " takes ",
                      taken.empty() ? "only options" : absl::StrCat("only ", absl::StrJoin(taken, " ")), shown);
}

// Returns what to write in place of a list such as `--preset bf16,fp16`, if the option takes one word of a fixed set
// but may be repeated: "--preset bf16 --preset fp16". Empty for other options and values.
std::string WithOneOptionEach(const Argument* argument, const std::string& name,
                              const std::vector<std::string>& words) {
  if (argument == nullptr || argument->choices.empty() ||
      !std::holds_alternative<std::vector<std::string>*>(argument->value)) {
    return "";
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const bool is_next = words[i] == name && i + 1 < words.size();
    const bool is_same = words[i].starts_with(name + "=");
    const std::vector<std::string> values = absl::StrSplit(is_next   ? words[i + 1]
                                                           : is_same ? words[i].substr(name.size() + 1)
                                                                     : "",
                                                           ',');
    const bool are_choices = std::all_of(values.begin(), values.end(), [argument](const std::string& value) {
      return std::find(argument->choices.begin(), argument->choices.end(), value) != argument->choices.end();
    });
    if (values.size() > 1 && are_choices) {
      return absl::StrCat(name, " ", absl::StrJoin(values, absl::StrCat(" ", name, " ")));
    }
  }
  return "";
}

// Returns the end of a message about an unknown output format, which suggests one of `formats`: "; did you mean -o
// yaml?" for a message that has 'yml'. Empty if none is similar.
std::string MeantFormat(const std::string& message, const std::string& formats) {
  constexpr std::pair<const char*, const char*> kUsual[] = {
      {"yml", "yaml"}, {"ndjson", "jsonl"}, {"md", "markdown"}, {"text", "table"}, {"txt", "table"}};
  const std::vector<std::string> quoted = absl::StrSplit(message, '\'');
  const std::string text = quoted.size() < 2 ? "" : absl::AsciiStrToLower(absl::StripPrefix(quoted[1], "="));
  const auto* const usual =
      std::find_if(std::begin(kUsual), std::end(kUsual), [&text](const auto& pair) { return text == pair.first; });
  const std::vector<std::string> known = absl::StrSplit(formats, ", ");
  const std::string meant = usual != std::end(kUsual) ? usual->second : Nearest(text, known);
  const bool is_known = std::find(known.begin(), known.end(), meant) != known.end();
  return is_known && text.find(',') == std::string::npos ? absl::StrCat("; did you mean -o ", meant, "?") : "";
}

// Returns the message of the check that a value did not pass. The message begins with the parser's name for the
// argument; this function replaces it by the name that the help shows.
std::string WrongValue(const CommandTree& tree, const CLI::ParseError& error, const CLI::App& command,
                       const std::vector<std::string>& words) {
  const std::string what = error.what();
  for (const CLI::Option* option : OptionsOf(command)) {
    const std::string prefix = option->get_name() + ": ";
    if (absl::StartsWith(what, prefix)) {
      const std::string name = option->get_positional() ? WrittenAs(tree, *option) : option->get_name();
      const bool is_format = option->get_name() == "--output";
      const std::string list = WithOneOptionEach(tree.ArgumentOf(option), name, words);
      if (!list.empty()) {
        return absl::StrCat(name, ": takes one value; for several values, repeat the option: ", list);
      }
      return absl::StrCat(
          name, ": ", what.substr(prefix.size()),
          is_format ? absl::StrCat("; the formats ", SubcommandNames(command).empty() ? "of " + FullName(command) : "",
                                   " are ", FormatNames(tree.FormatsOf(&command)),
                                   MeantFormat(what, FormatNames(tree.FormatsOf(&command))))
                    : "");
    }
  }
  return what;
}

}  // namespace

std::string UnknownOption(const CLI::App& command, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") {
      return "";
    }
    const std::string name = word.substr(0, word.find('='));
    const bool is_long = name.starts_with("--");
    const bool is_short = !is_long && name.size() > 1 && name.front() == '-';
    if (is_long && FindOption(&command, name.substr(2), /*is_long=*/true) == nullptr) {
      return name;
    }
    if (is_short && FindOption(&command, name.substr(1, 1), /*is_long=*/false) == nullptr) {
      return name.substr(0, 2);
    }
  }
  return "";
}

std::string FullName(const CLI::App& command) {
  const std::string path = PathOf(command);
  return path.empty() ? "ampctl" : "ampctl " + path;
}

std::string ExplainParseError(const CommandTree& tree, const CLI::ParseError& error, const ReadWords& read,
                              const std::vector<std::string>& words) {
  const CLI::App& command = *read.command;
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const std::vector<std::string> commands = SubcommandNames(command);
    if (const std::string option = UnknownOption(command, words); !option.empty()) {
      return absl::StrCat(FullName(command), " has no option '", option, "'");
    }
    return commands.empty()
               ? Missing(tree, read, words)
               : absl::StrCat(
                     FullName(command), " needs one of these commands: ", absl::StrJoin(commands, ", "),
                     read.positionals.empty() ? "" : "; leave out '--', because a word after it is never a command");
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string option = UnknownOption(command, words);
    return option.empty() ? TooManyWords(tree, read, words)
                          : absl::StrCat(FullName(command), " has no option '", option, "'");
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const std::string flag = FlagWithValue(command, words);
    return flag.empty() ? WrongCount(tree, error, read, words) : flag;
  }
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) {
    return WrongValue(tree, error, command, words);
  }
  const std::string flag = FlagWithValue(command, words);
  return flag.empty() ? absl::StrCat(FullName(command), " got a value that it cannot read") : flag;
}

}  // namespace ampd::client
