#include "client/cli/usage.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/command_words.h"
#include "client/cli/foreign_words.h"
#include "client/cli/parse_error.h"
#include "client/jobfile/nearest.h"
#include "client/render/format.h"
#include "client/terminal/exit_codes.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  ampctl dev                                   run a server and a worker on this machine\n"
    "  ampctl job submit -f job.yaml --follow       submit a job and watch it live\n"
    "  ampctl job submit -f job.yaml --set precision.preset=fp16 --set train.epochs=2\n"
    "  ampctl compare -f job.yaml                   find the fastest policy that is accurate enough\n"
    "  ampctl job list -o wide\n"
    "  ampctl job explain ID                        show why a job waits\n"
    "More: ampctl COMMAND --help, ampctl help exit-codes";

constexpr char kEverywhere[] =
    "All commands accept: --address, -o FORMAT, --no-headers, -q, --color, --ascii (see ampctl --help)";

void AddFootersBelow(const CommandTree& tree, CLI::App* app) {
  for (CLI::App* child : app->get_subcommands([](const CLI::App*) { return true; })) {
    const Command& command = tree.CommandOf(child);
    child->footer(absl::StrCat(command.examples.empty() ? "" : "Examples:\n" + command.examples + "\n",
                               command.run == nullptr || command.formats.size() == 1
                                   ? ""
                                   : absl::StrCat("Formats (-o): ", FormatNames(command.formats), "\n"),
                               kEverywhere));
    AddFootersBelow(tree, child);
  }
}

// Prints the usage line with the options that must be given, and with the names of values that the help uses.
class UsageFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = absl::StrCat("Usage: ", name);
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_required() && option->nonpositional()) {
        const bool is_short = !option->get_snames().empty();
        absl::StrAppend(&usage, " ", is_short ? "-" + option->get_snames().front() : option->get_name(), " ",
                        option->get_option_text());
      }
    }
    absl::StrAppend(&usage, " [OPTIONS]");
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_positional()) {
        const std::string& text = option->get_option_text();
        const bool is_marked = option->get_required() || text.starts_with('[');
        absl::StrAppend(&usage, " ", is_marked ? text : absl::StrCat("[", text, "]"));
      }
    }
    return absl::StrCat(usage, SubcommandsOf(*app).empty() ? "" : " SUBCOMMAND", "\n");
  }
};

// Returns the value that follows the option in the command line; empty if there is none.
std::string ValueAfter(const std::string& option, const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(option + "=")) {
      return words[i].substr(option.size() + 1);
    }
    if (words[i] == option && i + 1 < words.size()) {
      return words[i + 1];
    }
  }
  return "";
}

// Whether the command takes the file that it writes as an argument without an option.
bool WritesFile(const CLI::App& command) {
  const std::vector<const CLI::Option*> positionals =
      command.get_options([](const CLI::Option* option) { return option->get_positional(); });
  return !positionals.empty() && positionals.back()->get_name() == "file" && command.get_name() != "upload";
}

// Returns the command line that was probably meant by an option of other programs, or by a value that stands in the
// wrong place; empty if there is none.
std::string LineMeant(const ReadWords& read, const std::string& unknown, const std::vector<std::string>& words) {
  const std::string full = FullName(*read.command);
  for (const char* option : {"-o", "--output", "--out", "--output-file", "--dest"}) {
    const std::string file = ValueAfter(option, words);
    const bool is_format = std::string_view(option).starts_with("-o") || std::string_view(option) == "--output";
    if (file.empty() || !WritesFile(*read.command) || (is_format ? FormatNamed(file).has_value() : unknown != option)) {
      continue;
    }
    std::vector<std::string> names = read.positionals;
    names.erase(std::remove(names.begin(), names.end(), file), names.end());
    names.push_back(file);
    return CommandLine(full, names);
  }
  if (const std::string order = ValueAfter("--sort", words); order.size() > 1 && order.front() == '-') {
    return absl::StrCat("--sort ", order.substr(1), ",desc");
  }
  const std::string rewritten = RewrittenOption(PathOf(*read.command), unknown, ValueAfter(unknown, words));
  const bool is_list = PathOf(*read.command) == "job list" && unknown.empty() && read.positionals.size() == 1;
  return is_list ? FilterForState(read.positionals.front()) : rewritten;
}

// Returns the option that was probably meant by one that the command does not have; empty if there is none.
std::string OptionMeant(const std::string& unknown, const CLI::App& command) {
  const std::vector<std::string> known = OptionNames(command);
  const std::string meant = OptionForForeign(unknown, known);
  return meant.empty() ? Nearest(unknown, known) : meant;
}

// Returns the root of the commands.
const CLI::App& RootOf(const CLI::App& app) {
  const CLI::App* root = &app;
  while (root->get_parent() != nullptr) {
    root = root->get_parent();
  }
  return *root;
}

// Returns advice on the words of which the first names no command of `group`; empty if there is none.
std::string AdviceOnWords(const CLI::App& group, const std::vector<std::string>& rest) {
  const std::vector<std::string> after(rest.begin() + 1, rest.end());
  if (rest[0] == "help") {
    return absl::StrCat("to see its help: ", CommandLine("ampctl help " + PathOf(group), after));
  }
  const CLI::App& root = RootOf(group);
  if (const std::string advice = ForeignWordAdvice(root, PathOf(group), rest); !advice.empty()) {
    return advice;
  }
  const std::string singular = Singular(rest[0], SubcommandNames(group));
  std::string unknown;
  const CLI::App* const meant = singular.empty() ? nullptr : FindCommand(&group, {singular}, &unknown);
  if (meant == nullptr || SubcommandsOf(*meant).empty()) {
    return "";
  }
  const bool has_verb = !after.empty() && !after[0].starts_with('-');
  if (has_verb && FindCommand(meant, {after[0]}, &unknown) == meant) {
    return ForeignWordAdvice(root, PathOf(*meant), after);
  }
  return absl::StrCat("did you mean: ", CommandLine(FullName(*meant) + (has_verb ? "" : " list"), after));
}

}  // namespace

void UseOwnUsageLine(CLI::App* root) { root->formatter(std::make_shared<UsageFormatter>()); }

int FailUnknownCommand(const CLI::App& group, const std::vector<std::string>& words, const std::string& unknown) {
  const std::string full = FullName(group);
  const std::string no_command = absl::StrCat("error: ", full, " has no command '", Printable(unknown), "'; ");
  const std::vector<std::string> rest(std::find(words.begin(), words.end(), unknown), words.end());
  if (const std::string advice = AdviceOnWords(group, rest); !advice.empty()) {
    WriteMessage(absl::StrCat(no_command, advice, "\n"));
    return kExitUsage;
  }
  const std::vector<std::string> commands = SubcommandNames(group);
  if (commands.empty()) {
    WriteMessage(absl::StrCat("error: ", full, " is a command without further commands such as '", Printable(unknown),
                              "'\n  try: ", full, " --help\n"));
    return kExitUsage;
  }
  const std::string nearest = Nearest(unknown, commands);
  WriteMessage(absl::StrCat(no_command, "its commands are ", absl::StrJoin(commands, ", "), "\n",
                            nearest.empty() ? "" : absl::StrCat("  did you mean '", nearest, "'?\n"), "  try: ", full,
                            " --help\n"));
  return kExitUsage;
}

int FailUsage(const CommandTree& tree, const CLI::ParseError& error, int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const ReadWords read = Read(*tree.root(), words);
  if (!read.unknown.empty()) {
    return FailUnknownCommand(*read.command, words, read.unknown);
  }
  std::string text = absl::StrCat("error: ", Printable(ExplainParseError(tree, error, read, words)), "\n");
  const bool is_value_wrong = dynamic_cast<const CLI::ValidationError*>(&error) != nullptr ||
                              dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;
  const std::string unknown = UnknownOption(*read.command, words);
  const std::string line = LineMeant(read, unknown, words);
  const std::string nearest = !line.empty() ? line : is_value_wrong ? "" : OptionMeant(unknown, *read.command);
  if (!nearest.empty()) {
    absl::StrAppend(&text, "  did you mean '", nearest, "'?\n");
  }
  WriteMessage(absl::StrCat(text, "  try: ", FullName(*read.command), " --help\n"));
  return kExitUsage;
}

int FailFormat(const CommandTree& tree, OutputFormat format) {
  const std::string full = FullName(*tree.selected());
  WriteMessage(absl::StrCat("error: ", full, " does not support the format '", FormatName(format),
                            "'; its formats are ", FormatNames(tree.FormatsOf(tree.selected())), "\n  try: ", full,
                            " --help\n"));
  return kExitUsage;
}

void AddFooters(const CommandTree& tree) {
  tree.root()->footer(kExamples);
  AddFootersBelow(tree, tree.root());
}

}  // namespace ampd::client
