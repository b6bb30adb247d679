#include "client/cli/parse_error.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace ampd::client {
namespace {

// Returns the name of a positional argument without the marks of the help: "ID" for "ID..." and "[ID]".
std::string PlainName(const std::string& text) {
  return absl::StrReplaceAll(text, {{"[", ""}, {"]", ""}, {"...", ""}});
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

// Names the required arguments that are missing. A word that stands where the command takes none is probably the value
// of the first of them, such as the file of `ampctl job submit job.yaml`.
std::string Missing(const CommandTree& tree, const ReadWords& read) {
  const CLI::App& command = *read.command;
  std::vector<std::string> missing;
  std::string option_of_word;
  for (const CLI::Option* option : OptionsOf(command)) {
    if (option->get_required() && option->count() == 0) {
      missing.push_back(WrittenAs(tree, *option));
      option_of_word = option->get_snames().empty() ? option->get_name() : "-" + option->get_snames().front();
    }
  }
  const bool takes_no_words = command.get_options([](const CLI::Option* o) { return o->get_positional(); }).empty();
  const std::string with_option = takes_no_words && missing.size() == 1 && read.positionals.size() == 1
                                      ? absl::StrCat("; with the file ", read.positionals[0], ": ", FullName(command),
                                                     " ", option_of_word, " ", read.positionals[0])
                                      : "";
  return absl::StrCat(FullName(command), " needs ", absl::StrJoin(missing, " and "), with_option);
}

// Explains that an option has no value, or more values than it takes.
std::string WrongCount(const CommandTree& tree, const CLI::ParseError& error, const ReadWords& read) {
  for (const CLI::Option* option : OptionsOf(*read.command)) {
    const bool is_open = option == read.open || absl::StartsWith(error.what(), option->get_name() + ":");
    const bool takes_value = option->get_items_expected_max() > 0;
    if (takes_value && option->count() > 1 && static_cast<int>(option->count()) > option->get_items_expected_max()) {
      return absl::StrCat(option->get_name(), " is given ", option->count(), " times; give it once");
    }
    if (takes_value && is_open) {
      return absl::StrCat(option->get_name(), " needs a value: ", WrittenAs(tree, *option));
    }
  }
  return absl::StrCat(FullName(*read.command), " got an option with too few or too many values");
}

// Explains a flag that was given a value.
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
  return absl::StrCat(FullName(command), " got a value that it cannot read");
}

std::string TooManyWords(const CommandTree& tree, const ReadWords& read) {
  std::vector<std::string> taken;
  for (const CLI::Option* option : read.command->get_options()) {
    if (option->get_positional()) {
      taken.push_back(WrittenAs(tree, *option));
    }
  }
  const std::vector<std::string> extra = tree.root()->remaining(/*recurse=*/true);
  const std::string shown = extra.empty() ? "" : absl::StrCat("; '", extra.front(), "' is one word too many");
  return absl::StrCat(FullName(*read.command), " takes ",
                      taken.empty() ? "only options" : absl::StrCat("only ", absl::StrJoin(taken, " ")), shown);
}

// Returns the message of one of our checks. It begins with the name that the parser has for the argument, which is
// replaced by the name that the help shows.
std::string WrongValue(const CommandTree& tree, const CLI::ParseError& error, const CLI::App& command) {
  const std::string what = error.what();
  for (const CLI::Option* option : OptionsOf(command)) {
    const std::string prefix = option->get_name() + ": ";
    if (absl::StartsWith(what, prefix)) {
      const std::string name = option->get_positional() ? WrittenAs(tree, *option) : option->get_name();
      return absl::StrCat(name, ": ", what.substr(prefix.size()));
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
               ? Missing(tree, read)
               : absl::StrCat(FullName(command), " needs one of these commands: ", absl::StrJoin(commands, ", "),
                              read.positionals.empty() ? "" : "; a word after -- is never a command, so leave out --");
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string option = UnknownOption(command, words);
    return option.empty() ? TooManyWords(tree, read) : absl::StrCat(FullName(command), " has no option '", option, "'");
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return WrongCount(tree, error, read);
  }
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) {
    return WrongValue(tree, error, command);
  }
  return FlagWithValue(command, words);
}

}  // namespace ampd::client
