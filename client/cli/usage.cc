#include "client/cli/usage.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest.h"
#include "client/cli/answers/command_words.h"
#include "client/cli/answers/foreign_values.h"
#include "client/cli/answers/foreign_words.h"
#include "client/cli/misplaced.h"
#include "client/cli/parse_error.h"
#include "client/commands/job_checkpoint.h"
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
    "More: ampctl COMMAND --help, and ampctl help job-file | environment | exit-codes\n"
    "A DURATION is a number with a unit (ms, s, m, h or d), or several of them: 90s, 1h30m\n"
    "Names such as docs/data.md mean files of ampd's source, which the package ampd-doc installs in "
    "/usr/share/doc/ampd-doc";

constexpr char kEverywhere[] =
    "Options of all commands (see ampctl --help): --address, --token-file, --ca, --cert, --key, --tenant, -o FORMAT, "
    "--no-headers, -q, --color, --ascii";
constexpr char kEverywhereButFormats[] =
    "Options of all commands (see ampctl --help), here without -o: --address, --token-file, --ca, --cert, --key, "
    "--tenant, --no-headers, -q, --color, --ascii";

void AddFootersBelow(const CommandTree& tree, CLI::App* app) {
  for (CLI::App* child : app->get_subcommands([](const CLI::App*) { return true; })) {
    const Command& command = tree.CommandOf(child);
    const bool is_group = command.run == nullptr;
    const bool has_formats = !is_group && command.formats.size() > 1;
    child->footer(absl::StrCat(command.examples.empty() ? "" : "Examples:\n" + command.examples + "\n",
                               has_formats ? absl::StrCat("Formats (-o): ", FormatNames(command.formats), "\n") : "",
                               is_group || has_formats ? kEverywhere : kEverywhereButFormats));
    AddFootersBelow(tree, child);
  }
}

// Prints the usage line with the options that must be given, and with the names of values that the help uses.
class UsageFormatter : public CLI::Formatter {
 public:
  // Shows a positional argument as the name of its value: "JOB". CLI11 would put its own name in front: "job JOB".
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    return is_positional ? option->get_option_text() : CLI::Formatter::make_option_name(option, is_positional);
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_positional() ? "" : CLI::Formatter::make_option_opts(option);
  }
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

// Whether the command writes a file or folder whose name is an argument, and not the value of an option.
bool WritesFile(const CLI::App& command) {
  const std::vector<const CLI::Option*> positionals =
      command.get_options([](const CLI::Option* option) { return option->get_positional(); });
  return !positionals.empty() &&
         (positionals.back()->get_name() == "file" || positionals.back()->get_name() == "folder") &&
         command.get_name() != "upload";
}

// Whether the first argument of the command names a checkpoint, as JOB@STEP.
bool TakesCheckpoint(const CLI::App& command) {
  const std::vector<const CLI::Option*> options = command.get_options();
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* option) {
    return option->get_positional() && absl::StrContains(option->get_option_text(), "@STEP");
  });
}

// Returns the words after the command's name, except `option` and its value.
std::vector<std::string> WordsWithout(const std::string& option, const CLI::App& command,
                                      const std::vector<std::string>& words) {
  const auto name = std::find(words.begin(), words.end(), command.get_name());
  std::vector<std::string> rest;
  for (auto word = name == words.end() ? name : name + 1; word != words.end(); ++word) {
    const bool is_option = *word == option;
    if (!is_option && !word->starts_with(option + "=")) {
      rest.push_back(*word);
    }
    if (is_option && word + 1 != words.end()) {
      ++word;  // The option's value.
    }
  }
  return rest;
}

// Corrects a command line that names the file to write as the value of an option: returns the command line with the
// file as a positional argument. Empty if the command takes no such argument, or no option has a file.
std::string WithFile(const ReadWords& read, const std::string& unknown, const std::vector<std::string>& words) {
  constexpr const char* kFileOptions[] = {"-o", "--output", "--out",    "--output-file", "--dest",
                                          "-f", "--file",   "--folder", "--dir",         "--output-dir",
                                          "-d", "-O",       "--to",     "--path"};
  for (const char* option : kFileOptions) {
    const std::string file = ValueAfter(option, words);
    const bool is_format = std::string_view(option) == "-o" || std::string_view(option) == "--output";
    if (!file.empty() && WritesFile(*read.command) &&
        (is_format ? !FormatNamed(file).has_value() : unknown == option)) {
      std::vector<std::string> line = WordsWithout(option, *read.command, words);
      line.push_back(file);
      return CommandLine(FullName(*read.command), line);
    }
  }
  return "";
}

// Corrects a command line that gives a checkpoint's step as --step 200: returns the command line with the step in the
// checkpoint's name, JOB@200. Empty if the line has no such option, or the command takes no checkpoint.
std::string WithStep(const ReadWords& read, const std::string& unknown, const std::vector<std::string>& words) {
  const std::string step = ValueAfter("--step", words);
  if (unknown != "--step" || step.empty() || !TakesCheckpoint(*read.command)) {
    return "";
  }
  const bool is_number = std::all_of(step.begin(), step.end(), absl::ascii_isdigit);
  const std::string meant = is_number ? "" : CheckpointMeant(step);
  std::vector<std::string> line = WordsWithout("--step", *read.command, words);
  const auto job =
      std::find_if(line.begin(), line.end(), [](const std::string& word) { return !word.starts_with('-'); });
  (job == line.end() ? line.insert(job, "JOB") : job)->append("@" + (meant.empty() ? step : meant));
  return CommandLine(FullName(*read.command), line);
}

// Returns "--set train.steps=3" if the user has typed train.steps=3 without --set, or `--set train.steps 3` without the
// equals sign. Empty if the user has typed neither.
std::string WithSet(const ReadWords& read, const std::string& unknown, const std::vector<std::string>& words) {
  if (!unknown.empty() || FindOption(read.command, "set", /*is_long=*/true) == nullptr) {
    return "";
  }
  const std::string path = ValueAfter("--set", words);
  const auto behind = std::find(words.begin(), words.end(), path);
  const auto value = behind == words.end() || behind + 1 == words.end() ? words.end()
                     : behind[1] == "="                                 ? behind + 2
                                                                        : behind + 1;
  if (!path.empty() && !absl::StrContains(path, "=") && value != words.end() && NeedsNoQuotes(path) &&
      NeedsNoQuotes(*value)) {
    return absl::StrCat("--set ", path, "=", *value);
  }
  const auto word = std::find_if(read.positionals.begin(), read.positionals.end(), [](const std::string& text) {
    return absl::StrContains(text, "=") && NeedsNoQuotes(text);
  });
  // Hydra marks an override that adds a field by a '+'.
  return word == read.positionals.end() ? ""
                                        : "--set " + word->substr(std::min(word->find_first_not_of('+'), word->size()));
}

// Corrects `--policies bf16 fp16`, where the option takes a list with commas: returns "--policies bf16,fp16". Empty if
// no such option is followed by several words.
std::string WithCommas(const ReadWords& read, const std::string& unknown, const std::vector<std::string>& words) {
  for (size_t i = 0; unknown.empty() && i + 2 < words.size(); ++i) {
    const CLI::Option* const option =
        words[i].starts_with("--") ? FindOption(read.command, words[i].substr(2), /*is_long=*/true) : nullptr;
    std::vector<std::string> values;
    for (size_t j = i + 1; j < words.size() && NeedsNoQuotes(words[j]); ++j) {
      values.push_back(words[j]);
    }
    if (option != nullptr && absl::StrContains(option->get_option_text(), ",...") && values.size() > 1) {
      return absl::StrCat(words[i], " ", absl::StrJoin(values, ","));
    }
  }
  return "";
}

// Returns what the user probably meant by an option of another program, or by a value in the wrong place. The result is
// a whole command line, or only an option such as "--sort loss,desc". Empty if there is no such option or value.
std::string LineMeant(const ReadWords& read, const std::string& unknown, const std::vector<std::string>& words) {
  if (const std::string line = WithFile(read, unknown, words); !line.empty()) {
    return line;
  }
  if (const std::string line = WithStep(read, unknown, words); !line.empty()) {
    return line;
  }
  const std::string value = ValueAfter(unknown, words);
  const bool is_other_format = unknown == "--format" && !FormatNamed(value).has_value();
  const std::string rewritten = is_other_format ? "" : RewrittenOption(PathOf(*read.command), unknown, value);
  if (const std::string line = WithSet(read, unknown, words); !line.empty()) {
    return line;
  }
  if (const std::string line = WithCommas(read, unknown, words); !line.empty()) {
    return line;
  }
  const bool is_list = PathOf(*read.command) == "job list" && unknown.empty() && read.positionals.size() == 1;
  return is_list ? FilterForWord(read.positionals.front()) : rewritten;
}

// Returns the option that was probably meant by one that the command does not have; empty if there is none.
std::string OptionMeant(const std::string& unknown, const CLI::App& command) {
  const std::vector<std::string> known = OptionNames(command);
  const std::string meant = OptionForForeign(unknown, known);
  return meant.empty() ? Nearest(unknown, known) : meant;
}

// Returns the answer with the job that the user has typed in place of ID. `value` is the value of an option that the
// command does not have, so that it may count as a positional word.
std::string ForTypedJob(const ReadWords& read, const std::string& value, const std::string& answer) {
  std::vector<std::string> names = read.positionals;
  std::erase(names, value);
  if (names.size() != 1 || !NeedsNoQuotes(names[0])) {
    return answer;
  }
  std::vector<std::string> words = absl::StrSplit(answer, ' ');
  std::replace(words.begin(), words.end(), std::string("ID"), names[0]);
  return absl::StrJoin(words, " ");
}

// Returns a sentence that tells the user what to do if the command does not know an option, or does not take a word.
// Empty if there is no such sentence. A word after `list`, as in `job list x`, is taken for the name of an object: the
// sentence says how to show this object.
std::string AnswerTo(const CLI::App& root, const ReadWords& read, const std::string& unknown, const std::string& value,
                     const std::vector<std::string>& words) {
  const std::string path = PathOf(*read.command);
  const bool has_extra = unknown.empty() && !read.positionals.empty();
  const std::string lines = has_extra ? OneLineEach(read, words) : "";
  const std::string answer =
      !lines.empty()
          ? Printable(lines)
          : ForTypedJob(read, value, AnswerToOption(path, has_extra ? read.positionals.front() : unknown, value));
  const bool is_term = answer.empty() && has_extra && path == "job list" &&
                       FilterForWord(read.positionals.front()).empty() &&
                       absl::StrContains(read.positionals.front(), "=");
  if (is_term) {
    return Printable(AdviceOnFilter(read.positionals.front(), /*is_valid=*/false));
  }
  const bool is_list = path == "job list" || path == "worker list" || path == "policy list";
  const bool is_name = answer.empty() && has_extra && is_list && FilterForWord(read.positionals.front()).empty();
  return is_name ? AdviceOnName(root, path.substr(0, path.find(' ')), read.positionals) : answer;
}

// Returns the command that contains all others: ampctl itself.
const CLI::App& RootOf(const CLI::App& app) {
  const CLI::App* root = &app;
  while (root->get_parent() != nullptr) {
    root = root->get_parent();
  }
  return *root;
}

// Returns advice on `rest`, whose first word is not a command of `group`; empty if there is no advice.
std::string AdviceOnWords(const CLI::App& group, const std::vector<std::string>& rest) {
  const std::vector<std::string> after(rest.begin() + 1, rest.end());
  if (rest[0] == "help") {
    return absl::StrCat("to see its help: ", CommandLine("ampctl help " + PathOf(group), after));
  }
  return ForeignWordAdvice(RootOf(group), PathOf(group), rest);
}

}  // namespace

void UseOwnUsageLine(CLI::App* root) { root->formatter(std::make_shared<UsageFormatter>()); }

int FailUnknownCommand(const CLI::App& group, const std::vector<std::string>& words, const std::string& unknown,
                       const std::vector<std::string>& topics) {
  const std::string full = FullName(group);
  const std::string no_command = absl::StrCat("error: ", full, " has no command '", Printable(unknown), "'; ");
  const auto first = std::find(words.begin(), words.end(), unknown);
  std::vector<std::string> rest(first, words.end());
  std::erase_if(rest, [](const std::string& word) { return word == "--help"; });
  if (PathOf(group).empty() && std::find(first, words.end(), "--") == words.end()) {
    rest.insert(rest.end(), words.begin(), first);  // Moves the options in front of the unknown word behind it.
  }
  if (const std::string advice = AdviceOnWords(group, rest); !advice.empty()) {
    WriteMessage(absl::StrCat(no_command, advice, "\n"));
    return kExitUsage;
  }
  if (const std::string line = PathOf(group).empty() ? WithSplitCommand(group, rest) : ""; !line.empty()) {
    WriteMessage(absl::StrCat(no_command, "did you mean: ", Printable(line), "\n"));
    return kExitUsage;
  }
  const std::vector<std::string> commands = SubcommandNames(group);
  if (commands.empty()) {
    WriteMessage(absl::StrCat("error: '", Printable(unknown), "' is not a command: ", full,
                              " has no subcommands\n  try: ", full, " --help\n"));
    return kExitUsage;
  }
  std::vector<std::string> known = commands;
  known.insert(known.end(), topics.begin(), topics.end());
  const std::string nearest = Nearest(unknown, known);
  const std::string of_name = nearest.empty() ? AdviceOnName(RootOf(group), PathOf(group), rest) : "";
  WriteMessage(
      absl::StrCat(no_command, "its commands are ", absl::StrJoin(commands, ", "), "\n",
                   topics.empty() ? "" : absl::StrCat("  topics of ampctl help: ", absl::StrJoin(topics, ", "), "\n"),
                   nearest.empty() ? "" : absl::StrCat("  did you mean '", nearest, "'?\n"),
                   of_name.empty() ? "" : absl::StrCat("  ", of_name, "\n"), "  try: ", full, " --help\n"));
  return kExitUsage;
}

int FailUsage(const CommandTree& tree, const CLI::ParseError& error, int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const ReadWords read = Read(*tree.root(), words);
  if (const EarlyOption early = FindEarlyOption(*tree.root(), words); !early.option.empty()) {
    WriteMessage(absl::StrCat("error: ", FullName(*early.at), " has no option '", early.option,
                              "'; an option stands behind its command; did you mean: ", Printable(early.line), "\n"));
    return kExitUsage;
  }
  if (!read.unknown.empty()) {
    return FailUnknownCommand(*read.command, words, read.unknown);
  }
  std::string text = absl::StrCat("error: ", Printable(ExplainParseError(tree, error, read, words)), "\n");
  const bool is_value_wrong = dynamic_cast<const CLI::ValidationError*>(&error) != nullptr ||
                              dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;
  const std::string unknown = UnknownOption(*read.command, words);
  const bool is_filter = PathOf(*read.command) == "job list" && read.positionals.size() == 1 &&
                         !FilterForWord(read.positionals.front()).empty();
  const std::string with_option =
      is_value_wrong || is_filter || !unknown.empty() ? "" : Printable(WithOptionForWord(read, words));
  const std::string line = with_option.empty() ? LineMeant(read, unknown, words) : with_option;
  const std::string nearest = !line.empty() ? line : is_value_wrong ? "" : OptionMeant(unknown, *read.command);
  const std::string answer = is_value_wrong || !with_option.empty()
                                 ? ""
                                 : AnswerTo(*tree.root(), read, unknown, ValueAfter(unknown, words), words);
  const bool needs_owner = absl::StrContains(absl::StrCat(answer, nearest), "owner=NAME");
  if (!answer.empty()) {
    absl::StrAppend(&text, "  ", answer, needs_owner ? kAboutOwner : "", "\n");
  } else if (!nearest.empty()) {
    const bool is_bare = needs_owner || absl::StrContains(nearest, "'");
    absl::StrAppend(&text, is_bare ? "  did you mean: " : "  did you mean '", nearest, needs_owner ? kAboutOwner : "",
                    is_bare ? "\n" : "'?\n");
  }
  WriteMessage(absl::StrCat(text, "  try: ", FullName(*read.command), " --help\n"));
  return kExitUsage;
}

int FailFormat(const CommandTree& tree, OutputFormat format) {
  const std::string full = FullName(*tree.selected());
  const FormatSet formats = tree.FormatsOf(tree.selected());
  const std::string known = formats.size() == 1
                                ? absl::StrCat("its only format is ", FormatNames(formats), ", so omit -o")
                                : absl::StrCat("its formats are ", FormatNames(formats));
  WriteMessage(absl::StrCat("error: ", full, " does not support the format '", FormatName(format), "'; ", known,
                            "\n  try: ", full, " --help\n"));
  return kExitUsage;
}

void AddFooters(const CommandTree& tree) {
  tree.root()->footer(kExamples);
  AddFootersBelow(tree, tree.root());
}

}  // namespace ampd::client
