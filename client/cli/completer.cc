#include "client/cli/completer.h"

#include <algorithm>

#include "client/cli/answers/command_words.h"
#include "client/commands/suggestions.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

// Returns the words that may be the value of an option or positional argument. If `option` is null, there are none.
Words Suggested(const CommandTree& tree, const CLI::Option* option, const ReadWords& read, const std::string& text) {
  if (option == nullptr) {
    return {};
  }
  if (option->check_lname("output")) {
    Words names;
    for (const OutputFormat format : tree.FormatsOf(read.command)) {
      names.push_back(FormatName(format));
    }
    return names;
  }
  const Argument* const argument = tree.ArgumentOf(option);
  if (argument == nullptr) {
    return {};
  }
  if (argument->suggest == nullptr) {
    return argument->choices;
  }
  const auto address = read.values.find("address");
  return argument->suggest({text, address == read.values.end() ? "" : address->second, read.positionals});
}

// Returns the positional argument to which the next word belongs; null if the command takes no more.
const CLI::Option* NextPositional(const ReadWords& read) {
  size_t num_before = read.positionals.size();
  for (const CLI::Option* option : read.command->get_options()) {
    if (!option->get_positional()) {
      continue;
    }
    if (num_before == 0 || option->get_items_expected_max() > 1) {
      return option;
    }
    --num_before;
  }
  return nullptr;
}

Words Candidates(const CommandTree& tree, const ReadWords& read, const std::string& typed) {
  if (!read.unknown.empty()) {
    return {};
  }
  if (read.open != nullptr) {
    return Suggested(tree, read.open, read, typed);
  }
  if (const size_t equals = typed.find('='); typed.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* const option = FindOption(read.command, typed.substr(2, equals - 2), /*is_long=*/true);
    Words values = Suggested(tree, option, read, typed.substr(equals + 1));
    for (std::string& value : values) {
      value = value == kFileNames ? value : typed.substr(0, equals + 1) + value;
    }
    return values;
  }
  if (typed.starts_with("-")) {
    return OptionNames(*read.command);
  }
  Words commands = SubcommandNames(*read.command);
  return commands.empty() ? Suggested(tree, NextPositional(read), read, typed) : commands;
}

}  // namespace

Words Complete(const CommandTree& tree, Words words) {
  if (words.empty()) {
    words.emplace_back();
  }
  const std::string typed = words.back();
  words.pop_back();
  Words candidates = Candidates(tree, Read(*tree.root(), words), typed);
  std::erase_if(candidates, [&typed](const std::string& word) {
    // The shell prints completions as they are, so those that could control the terminal are left out.
    return (word != kFileNames && !word.starts_with(typed)) || word != Printable(word);
  });
  return candidates;
}

}  // namespace ampd::client
