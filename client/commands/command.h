#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "client/terminal/formats.h"
#include "client/terminal/session.h"

// A command as plain data. Each file client/commands/<noun>/<verb>.cc has one function that returns one: options, help
// and what the command does. client/cli parses the command line by it, and prints help and completions from it.
//
//   struct ScaleOptions { std::string id; std::optional<double> scale; };
//   int SetScale(Session* session, const ScaleOptions& options) {...}
//
//   Command ScaleJobCommand() {
//     const auto options = std::make_shared<ScaleOptions>();
//     return {.name = "scale",
//             .help = "Set the loss scale of a running job",
//             .arguments = {JobId(&options->id), {.name = "--set-scale", .value = &options->scale, .text = "X"}},
//             .run = [options](Session* session) { return SetScale(session, *options); }};
//   }
namespace ampd::client {

// What the user has typed when the shell asks for completions: the beginning of a word, and the server that the
// command line names (empty: the default).
struct Typed {
  std::string text;
  std::string address;
};

// Returns the words that may complete what was typed. It may return others too: words with another beginning are
// removed afterwards. Must be quick, and silent about errors. client/commands/suggestions.h has the usual ones.
using Suggest = std::function<std::vector<std::string>(const Typed&)>;

// Returns "" if the text is valid, otherwise the problem. client/commands/checks.h has the usual ones.
using Check = std::function<std::string(const std::string&)>;

// Where the parser stores an argument's value. A duration is written as a text such as 90s. A list has one value per
// use of the option.
using Value = std::variant<bool*, int*, int64_t*, std::optional<int>*, std::optional<int64_t>*, std::optional<double>*,
                           absl::Duration*, std::string*, std::vector<std::string>*>;

// An option of a command. A name without dashes makes it a positional argument.
struct Argument {
  std::string name;  // "--limit", "-f,--file" or "id"
  Value value;       // lives as long as the command's `run`
  std::string text;  // name of the value in the help, such as "N"; not used for a bool, which is a flag
  std::string help;
  bool required = false;
  std::vector<std::string> choices = {};  // the valid values, which the shell completes; empty: any that pass `check`
  Check check = nullptr;
  Suggest suggest = nullptr;
};

// A command or, if it has no `run`, a group of commands such as `ampctl job`.
struct Command {
  std::string name;
  std::string alias = "";  // a second name; empty: none
  std::string help;        // one line that says what the command does
  std::string examples = "";
  FormatSet formats = {OutputFormat::kTable};  // supported values of -o
  std::vector<Argument> arguments = {};
  std::function<int(Session*)> run = nullptr;  // prints the results and returns the exit code
  std::vector<Command> commands = {};          // commands of this group
};

}  // namespace ampd::client
