#include "client/cli/help.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/command_words.h"
#include "client/cli/parse_error.h"
#include "client/cli/usage.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

constexpr char kExitCodesTopic[] = "exit-codes";

std::string HelpOf(const CLI::App& command) {
  return command.get_formatter()->make_help(&command, FullName(command), CLI::AppFormatMode::Normal);
}

// Whether the words are another name of the topic of exit codes.
bool IsExitCodesTopic(const std::vector<std::string>& words) {
  const std::string text = absl::StrJoin(words, "-");
  constexpr const char* kNames[] = {kExitCodesTopic, "exit-code",     "exitcodes",  "exitcode",
                                    "exit_codes",    "exit-status",   "exit",       "codes",
                                    "return-codes",  "exit-statuses", "error-codes"};
  return std::find(std::begin(kNames), std::end(kNames), text) != std::end(kNames);
}

// Returns the command of a group for which `verb` stands alone, such as "job submit" for "submit": that of the first
// group which has it. Null if there is none.
const CLI::App* FindVerb(const CLI::App* root, const std::string& verb) {
  for (const CLI::App* group : SubcommandsOf(*root)) {
    std::string unknown;
    const CLI::App* const found = FindCommand(group, {verb}, &unknown);
    if (unknown.empty()) {
      return found;
    }
  }
  return nullptr;
}

int PrintHelp(const CLI::App* root, std::vector<std::string> words) {
  if (IsExitCodesTopic(words)) {
    WriteText(kExitCodesText);
    return kExitOk;
  }
  std::string unknown;
  if (!words.empty()) {
    const std::string singular = Singular(words[0], SubcommandNames(*root));
    words[0] = singular.empty() ? words[0] : singular;
  }
  const CLI::App* command = FindCommand(root, words, &unknown);
  const CLI::App* const of_verb = words.size() == 1 && command == root ? FindVerb(root, words[0]) : nullptr;
  if (of_verb != nullptr) {
    command = of_verb;
    unknown.clear();
  }
  if (!unknown.empty()) {
    return FailUnknownCommand(*command, words, unknown);
  }
  WriteText(HelpOf(*command));
  return kExitOk;
}

std::vector<std::string> SuggestHelp(const CLI::App* root, const Typed& typed) {
  std::string unknown;
  const CLI::App* const command = FindCommand(root, typed.positionals, &unknown);
  std::vector<std::string> names = unknown.empty() ? SubcommandNames(*command) : std::vector<std::string>();
  if (typed.positionals.empty()) {
    names.emplace_back(kExitCodesTopic);
  }
  return names;
}

}  // namespace

Command HelpCommand(const CommandTree* tree) {
  const auto words = std::make_shared<std::vector<std::string>>();
  const CLI::App* const root = tree->root();
  return {.name = "help",
          .help = "Print help on a command or on a topic",
          .examples = "  ampctl help job submit\n  ampctl help exit-codes",
          .arguments = {{.name = "words",
                         .value = words.get(),
                         .text = "COMMAND...",
                         .help = "Command, or the topic exit-codes (default: all commands)",
                         .suggest = [root](const Typed& typed) { return SuggestHelp(root, typed); }}},
          .run = [root, words](Session*) { return PrintHelp(root, *words); }};
}

}  // namespace ampd::client
