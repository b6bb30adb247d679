#include "client/cli/command_tree.h"

#include <type_traits>
#include <utility>

#include "client/commands/checks.h"

namespace ampd::client {
namespace {

CLI::Option* AddValue(CLI::App* app, const Argument& argument, bool* value) {
  return app->add_flag(argument.name, *value, argument.help);
}

CLI::Option* AddValue(CLI::App* app, const Argument& argument, absl::Duration* value) {
  const auto parse = [value](const std::string& text) { absl::ParseDuration(text, value); };
  return app->add_option_function<std::string>(argument.name, parse, argument.help)->check(CheckDuration);
}

template <typename T>
CLI::Option* AddValue(CLI::App* app, const Argument& argument, T* value) {
  return app->add_option(argument.name, *value, argument.help);
}

}  // namespace

void CommandTree::AddArgument(CLI::App* app, Argument argument) {
  CLI::Option* const option =
      std::visit([app, &argument](auto* value) { return AddValue(app, argument, value); }, argument.value);
  if (argument.required) {
    option->required();
  }
  if (!argument.choices.empty()) {
    option->check(OneOf(argument.choices));
  }
  if (argument.check != nullptr) {
    option->check(argument.check);
  }
  if (!argument.text.empty()) {
    option->option_text(argument.text);
  }
  if (argument.name.starts_with('-') && std::holds_alternative<std::vector<std::string>*>(argument.value)) {
    option->allow_extra_args(false);  // a list has one value per use of the option: the next word is not a second one
  }
  arguments_.emplace(option, std::move(argument));
}

void CommandTree::AddBelow(CLI::App* parent, Command command) {
  CLI::App* const app = parent->add_subcommand(command.name, command.help);
  app->fallthrough();
  if (!command.alias.empty()) {
    app->alias(command.alias);
  }
  if (command.run == nullptr) {
    app->require_subcommand(1);
  } else {
    app->callback([this, app] { selected_ = app; });
  }
  for (const Argument& argument : command.arguments) {
    AddArgument(app, argument);
  }
  for (const Command& child : command.commands) {
    AddBelow(app, child);
  }
  commands_.emplace(app, std::move(command));
}

const Argument* CommandTree::ArgumentOf(const CLI::Option* option) const {
  const auto found = arguments_.find(option);
  return found == arguments_.end() ? nullptr : &found->second;
}

FormatSet CommandTree::FormatsOf(const CLI::App* app) const {
  const auto found = commands_.find(app);
  return found == commands_.end() || found->second.run == nullptr ? AllFormats() : found->second.formats;
}

}  // namespace ampd::client
