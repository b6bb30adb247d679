#include "client/cli/usage.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/command_words.h"
#include "client/jobfile/nearest.h"
#include "client/terminal/exit_codes.h"

namespace ampd::client {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  ampctl dev                                   run a server and a worker on this machine\n"
    "  ampctl job submit -f job.yaml --follow       submit a job and watch it live\n"
    "  ampctl job submit -f job.yaml --set precision.preset=fp16 --set train.epochs=2\n"
    "  ampctl job list -o wide\n"
    "  ampctl job explain ID                        show why a job waits\n"
    "More: ampctl COMMAND --help, ampctl help exit-codes";

constexpr char kEverywhere[] =
    "All commands accept: --address, -o FORMAT, --no-headers, -q, --color, --ascii (see ampctl --help)";

void AddFootersBelow(const CommandTree& tree, CLI::App* app) {
  for (CLI::App* child : app->get_subcommands([](const CLI::App*) { return true; })) {
    const Command& command = tree.CommandOf(child);
    child->footer(absl::StrCat(
        command.examples.empty() ? "" : "Examples:\n" + command.examples + "\n",
        command.run == nullptr ? "" : absl::StrCat("Formats (-o): ", FormatNames(command.formats), "\n"), kEverywhere));
    AddFootersBelow(tree, child);
  }
}

// Returns the first word that is an option but not one of `names`; empty if there is none.
std::string UnknownOption(const std::vector<std::string>& names, const std::vector<std::string>& words) {
  for (const std::string& given : words) {
    const std::string word = given.substr(0, given.find('='));
    if (word.starts_with("--") && std::find(names.begin(), names.end(), word) == names.end()) {
      return word;
    }
  }
  return "";
}

std::string FullName(const CLI::App& command) {
  const std::string path = PathOf(command);
  return path.empty() ? "ampctl" : "ampctl " + path;
}

}  // namespace

int FailUsage(const CommandTree& tree, const CLI::ParseError& error, int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const ReadWords read = Read(*tree.root(), words);
  const std::string full = FullName(*read.command);
  const std::vector<std::string> commands = SubcommandNames(*read.command);
  std::string text = absl::StrCat("error: ", error.what(), "\n");
  std::string nearest;
  if (!read.unknown.empty()) {
    text = absl::StrCat("error: ", full, " has no command '", read.unknown, "'; it has ", absl::StrJoin(commands, ", "),
                        "\n");
    nearest = Nearest(read.unknown, commands);
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !commands.empty()) {
    text = absl::StrCat("error: ", full, " needs one of: ", absl::StrJoin(commands, ", "), "\n");
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> names = OptionNames(*read.command);
    if (const std::string option = UnknownOption(names, words); !option.empty()) {
      text = absl::StrCat("error: ", full, " has no option '", option, "'\n");
      nearest = Nearest(option, names);
    }
  }
  if (!nearest.empty()) {
    absl::StrAppend(&text, "  did you mean '", nearest, "'?\n");
  }
  absl::StrAppend(&text, "  try: ", full, " --help\n");
  std::fputs(text.c_str(), stderr);
  return kExitUsage;
}

int FailFormat(const CommandTree& tree, OutputFormat format) {
  const std::string full = FullName(*tree.selected());
  std::fputs(absl::StrCat("error: ", full, " has no format '", FormatName(format), "'; it has ",
                          FormatNames(tree.FormatsOf(tree.selected())), "\n  try: ", full, " --help\n")
                 .c_str(),
             stderr);
  return kExitUsage;
}

void AddFooters(const CommandTree& tree) {
  tree.root()->footer(kExamples);
  AddFootersBelow(tree, tree.root());
}

}  // namespace ampd::client
