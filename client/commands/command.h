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

// A command as plain data: its arguments, its help, and the function that runs it. Each file
// client/commands/<noun>/<verb>.cc has one function that returns a Command. client/cli uses the commands to parse the
// command line and to print help and completions.
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

// What the user has typed when the shell asks for completions of a word.
struct Typed {
  std::string text;                           // the beginning of the word
  std::string address;                        // the server that the command line names; empty: the default
  std::vector<std::string> positionals = {};  // the command's positional arguments before the word
};

// A function that suggests completions for what the user has typed. The caller removes words that do not begin with the
// typed text. The function must be quick, and print no errors. client/commands/suggestions.h has common ones.
using Suggest = std::function<std::vector<std::string>(const Typed&)>;

// A function that checks an argument's text. It returns "" if the text is valid, and an error text otherwise.
// client/commands/checks.h has common checks.
using Check = std::function<std::string(const std::string&)>;

// A number of bytes, which is written as 4096 or with a unit, as 4GiB (base/units.h).
struct ByteCount {
  int64_t bytes = 0;
};

// The variable in which the parser stores an argument's value. A duration is written as a text such as 90s. A list gets
// one value per use of the option.
using Value =
    std::variant<bool*, int*, int64_t*, std::optional<int>*, std::optional<int64_t>*, std::optional<double>*,
                 absl::Duration*, std::optional<absl::Duration>*, ByteCount*, std::string*, std::vector<std::string>*>;

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
  bool is_path = false;  // whether the value is a path on this machine, which may have bytes that are not UTF-8
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
