#include "client/cli/answers/command_words.h"

#include <algorithm>

#include "client/cli/answers/foreign_words.h"
#include "client/cli/answers/own_words.h"

namespace ampd::client {

const CLI::Option* FindOption(const CLI::App* app, const std::string& name, bool is_long) {
  for (; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      const std::vector<std::string>& names = is_long ? option->get_lnames() : option->get_snames();
      if (std::find(names.begin(), names.end(), name) != names.end()) {
        return option;
      }
    }
  }
  return nullptr;
}

namespace {

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// Returns the option in `word` whose value is the next word: --name, -o, or the last flag of a cluster such as -qo.
// Null if the word has no such option.
const CLI::Option* OpenOption(const CLI::App& app, const std::string& word) {
  if (word.starts_with("--")) {
    const CLI::Option* const option = FindOption(&app, word.substr(2), true);
    return option != nullptr && TakesValue(*option) ? option : nullptr;
  }
  for (size_t i = 1; i < word.size(); ++i) {
    const CLI::Option* const option = FindOption(&app, word.substr(i, 1), false);
    if (option != nullptr && TakesValue(*option)) {
      return i + 1 == word.size() ? option : nullptr;  // the rest of the word is its value
    }
  }
  return nullptr;
}

}  // namespace

std::vector<const CLI::App*> SubcommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* child) { return !child->get_group().empty(); });
}

std::vector<std::string> SubcommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* child : SubcommandsOf(app)) {
    names.push_back(child->get_name());
  }
  return names;
}

const CLI::App* FindCommand(const CLI::App* root, const std::vector<std::string>& words, std::string* unknown) {
  const CLI::App* command = root;
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> commands = SubcommandsOf(*command);
    const auto found = std::find_if(commands.begin(), commands.end(),
                                    [&word](const CLI::App* child) { return child->check_name(word); });
    if (found == commands.end()) {
      *unknown = word;
      return command;
    }
    command = *found;
  }
  return command;
}

std::string Singular(const std::string& word, const std::vector<std::string>& commands) {
  for (const std::string& command : commands) {
    if (word == command + "s" || (command.ends_with('y') && word == command.substr(0, command.size() - 1) + "ies")) {
      return command;
    }
  }
  return "";
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* around = &app; around != nullptr; around = around->get_parent()) {
    for (const CLI::Option* option : around->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        if (std::find(names.begin(), names.end(), "--" + name) == names.end()) {
          names.push_back("--" + name);
        }
      }
    }
  }
  return names;
}

std::string PathOf(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  if (parent == nullptr) {
    return "";
  }
  const std::string before = PathOf(*parent);
  return before.empty() ? app.get_name() : before + " " + app.get_name();
}

ReadWords Read(const CLI::App& root, const std::vector<std::string>& words) {
  ReadWords read;
  read.command = &root;
  bool only_positionals = false;
  bool after_unknown_option = false;  // whether `word` may be the value of an unknown option
  for (const std::string& word : words) {
    if (read.open != nullptr) {
      read.values[read.open->get_lnames().front()] = word;
      read.open = nullptr;
    } else if (word == "--") {
      only_positionals = true;
    } else if (!only_positionals && word.size() > 1 && word[0] == '-') {
      read.open = OpenOption(*read.command, word);
      if (const size_t equals = word.find('='); word.starts_with("--") && equals != std::string::npos) {
        read.values[word.substr(2, equals - 2)] = word.substr(equals + 1);
      }
      const bool is_long = word.starts_with("--");
      after_unknown_option = word.find('=') == std::string::npos && (is_long || TakesNextWord(word)) &&
                             FindOption(read.command, word.substr(is_long ? 2 : 1), is_long) == nullptr;
    } else if (const auto children = SubcommandsOf(*read.command); children.empty() || only_positionals) {
      read.positionals.push_back(word);
    } else {
      const auto found = std::find_if(children.begin(), children.end(),
                                      [&word](const CLI::App* child) { return child->check_name(word); });
      if (found == children.end() && after_unknown_option) {
        after_unknown_option = false;
        continue;
      }
      if (found == children.end()) {
        read.unknown = word;
        return read;
      }
      read.command = *found;
    }
  }
  return read;
}

}  // namespace ampd::client
