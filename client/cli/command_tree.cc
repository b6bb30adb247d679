#include "client/cli/command_tree.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "client/commands/checks.h"

namespace ampd::client {
namespace {

CLI::Option* AddValue(CLI::App* app, const Argument& argument, bool* value) {
  return app->add_flag(argument.name, *value, argument.help)->disable_flag_override();
}

// Adds an option whose text `parse` converts to a value. `parse` returns "" if the text is valid, otherwise the
// problem. CLI11 itself converts no text, so that every error message is our own.
template <typename Parse>
CLI::Option* AddParsed(CLI::App* app, const Argument& argument, Parse parse) {
  const std::string name = argument.name.substr(argument.name.rfind(',') + 1);
  const auto store = [name, parse](const std::string& text) {
    if (const std::string problem = parse(text); !problem.empty()) {
      throw CLI::ValidationError(name, problem);
    }
  };
  return app->add_option_function<std::string>(argument.name, store, argument.help);
}

template <typename Number>
std::string ParseNumber(const std::string& text, Number* value) {
  if constexpr (std::is_floating_point_v<Number>) {
    return absl::SimpleAtod(text, value) && std::isfinite(*value) ? "" : absl::StrCat("'", text, "' is not a number");
  } else {
    using Limits = std::numeric_limits<Number>;
    const std::string too_large = TooLarge(text, Limits::max());
    return !too_large.empty() || absl::SimpleAtoi(text, value)
               ? too_large
               : absl::StrCat("'", text, "' is not a whole number from ", Limits::min(), " to ", Limits::max());
  }
}

CLI::Option* AddValue(CLI::App* app, const Argument& argument, absl::Duration* value) {
  return AddParsed(app, argument, [value](const std::string& text) {
    const std::optional<absl::Duration> duration = ParseDuration(text);
    *value = duration.value_or(*value);
    return duration.has_value() ? "" : NotADuration(text);
  });
}

CLI::Option* AddValue(CLI::App* app, const Argument& argument, std::optional<absl::Duration>* value) {
  return AddParsed(app, argument, [value](const std::string& text) {
    *value = ParseDuration(text);
    return value->has_value() ? "" : NotADuration(text);
  });
}

CLI::Option* AddValue(CLI::App* app, const Argument& argument, ByteCount* value) {
  return AddParsed(app, argument, [value](const std::string& text) {
    const std::optional<int64_t> bytes = ParseByteCount(text);
    value->bytes = bytes.value_or(value->bytes);
    return bytes.has_value() ? "" : NotAByteCount(text);
  });
}

template <typename Number>
CLI::Option* AddValue(CLI::App* app, const Argument& argument, std::optional<Number>* value) {
  return AddParsed(app, argument, [value](const std::string& text) { return ParseNumber(text, &value->emplace()); });
}

template <typename T>
CLI::Option* AddValue(CLI::App* app, const Argument& argument, T* value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return AddParsed(app, argument, [value](const std::string& text) { return ParseNumber(text, value); });
  } else {
    return app->add_option(argument.name, *value, argument.help);
  }
}

}  // namespace

void CommandTree::AddArgument(CLI::App* app, Argument argument) {
  if (argument.required && argument.name.starts_with('-')) {
    argument.help.insert(std::min(argument.help.find('\n'), argument.help.size()), " (required)");
  }
  CLI::Option* const option =
      std::visit([app, &argument](auto* value) { return AddValue(app, argument, value); }, argument.value);
  if (argument.required) {
    option->required();
  }
  if (!argument.is_path && !std::holds_alternative<bool*>(argument.value)) {
    option->check(CheckUtf8);
  }
  if (std::holds_alternative<std::string*>(argument.value) ||
      std::holds_alternative<std::vector<std::string>*>(argument.value)) {
    option->check(CheckNotEmpty);
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
    option->allow_extra_args(false);  // each use of the option adds one value, and the word after it is no value
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
