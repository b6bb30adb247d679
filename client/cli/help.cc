#include "client/cli/help.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/answers/command_words.h"
#include "client/cli/answers/foreign_words.h"
#include "client/cli/parse_error.h"
#include "client/cli/topics.h"
#include "client/cli/usage.h"
#include "client/render/format.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

// Returns the command that is meant if the user typed only its verb: "job submit" for "submit". If several groups have
// the verb, returns the first group's command. Null if no group has it.
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
  if (const char* const topic = TopicText(words); topic != nullptr) {
    WriteProse(topic);
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
  if (const bool is_topic = !unknown.empty() && words.size() > 1 && TopicText({words[0]}) != nullptr; is_topic) {
    WriteMessage(absl::StrCat("error: ampctl help ", words[0], " prints the whole topic; leave out '",
                              Printable(words[1]), "'\n  try: ampctl help ", words[0], "\n"));
    return kExitUsage;
  }
  if (!unknown.empty()) {
    return FailUnknownCommand(*command, words, unknown, command == root ? TopicNames() : std::vector<std::string>());
  }
  WriteProse(HelpOf(*command));
  return kExitOk;
}

std::vector<std::string> SuggestHelp(const CLI::App* root, const Typed& typed) {
  std::string unknown;
  const CLI::App* const command = FindCommand(root, typed.positionals, &unknown);
  std::vector<std::string> names = unknown.empty() ? SubcommandNames(*command) : std::vector<std::string>();
  if (typed.positionals.empty()) {
    const std::vector<std::string> topics = TopicNames();
    names.insert(names.end(), topics.begin(), topics.end());
  }
  return names;
}

}  // namespace

std::string HelpOf(const CLI::App& command) {
  return command.get_formatter()->make_help(&command, FullName(command), CLI::AppFormatMode::Normal);
}

Command HelpCommand(const CommandTree* tree) {
  const auto words = std::make_shared<std::vector<std::string>>();
  const CLI::App* const root = tree->root();
  return {
      .name = "help",
      .help = "Print help on a command or on a topic",
      .examples = "  ampctl help job submit\n  ampctl help job-file",
      .arguments = {{.name = "words",
                     .value = words.get(),
                     .text = "COMMAND...",
                     .help =
                         "Command, or one of the topics exit-codes, job-file and environment (default: all commands)",
                     .suggest = [root](const Typed& typed) { return SuggestHelp(root, typed); }}},
      .run = [root, words](Session*) { return PrintHelp(root, *words); }};
}

}  // namespace ampd::client
