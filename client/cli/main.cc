#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/grpc/name_resolution.h"
#include "base/version.h"
#include "client/cli/answers/command_words.h"
#include "client/cli/command_tree.h"
#include "client/cli/completer.h"
#include "client/cli/completion.h"
#include "client/cli/help.h"
#include "client/cli/usage.h"
#include "client/commands/artifact/artifact.h"
#include "client/commands/auth/auth.h"
#include "client/commands/checkpoint/checkpoint.h"
#include "client/commands/compare/compare.h"
#include "client/commands/context/context.h"
#include "client/commands/data/data.h"
#include "client/commands/dev/dev.h"
#include "client/commands/init/init.h"
#include "client/commands/job/job.h"
#include "client/commands/model/model.h"
#include "client/commands/policy/policy.h"
#include "client/commands/server/health.h"
#include "client/commands/server/version.h"
#include "client/commands/suggestions.h"
#include "client/commands/worker/worker.h"
#include "client/terminal/exit_codes.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

// Sets `format` to the format that the text names. Returns "", or the error if it names none.
std::string ParseFormat(const std::string& text, OutputFormat* format) {
  const auto named = FormatNamed(text);
  if (!named.has_value()) {
    return absl::StrCat("there is no output format '", text, "'");
  }
  *format = *named;
  return "";
}

void AddGlobalOptions(CommandTree* tree, GlobalOptions* options, std::string* format) {
  tree->AddGlobal({.name = "--address",
                   .value = &options->address,
                   .text = "SERVER",
                   .help = "Server to use: HOST:PORT, unix:/PATH of its socket, or a name from ampctl context "
                           "list (default: the server that ampctl context show prints)",
                   .suggest = SuggestContexts});
  for (const ConnectionFileName& file : ConnectionFileNames()) {
    tree->AddGlobal({.name = absl::StrCat("--", file.name),
                     .value = &file.in(options->files),
                     .text = "FILE",
                     .help = file.help,
                     .suggest = SuggestFiles});
  }
  tree->AddGlobal({.name = "--tenant",
                   .value = &options->tenant,
                   .text = "TENANT",
                   .help = "Tenant (a group of users who share jobs and files) in which the command works; '*' for "
                           "all. Default: the tenant of the context, else AMPD_TENANT. If neither is set, lists show "
                           "what is in all your tenants, and what you create belongs to the tenant 'default' or, if "
                           "you have no role there, to the only tenant in which you have one",
                   .check = WhyNoTenant});
  tree->AddGlobal({.name = "-o,--output",
                   .value = format,
                   .text = "FORMAT",
                   .help =
                       "Output format: table, wide, json, jsonl, yaml or name; lists also have csv; compare also has "
                       "markdown and html (default table)",
                   .check = [options](const std::string& text) { return ParseFormat(text, &options->output); }});
  tree->AddGlobal(
      {.name = "--no-headers", .value = &options->no_headers, .help = "Print tables and CSV without headings"});
  tree->AddGlobal({.name = "-q,--quiet",
                   .value = &options->quiet,
                   .help = "Print no hints. Commands that support -o name then print ids or names instead of a table"});
  tree->AddGlobal({.name = "--color",
                   .value = &options->color,
                   .text = "WHEN",
                   .help = "Colours: auto (on a terminal, unless NO_COLOR is set), always or never (default auto)",
                   .choices = {"auto", "always", "never"}});
  tree->AddGlobal({.name = "--ascii", .value = &options->ascii, .help = "Print only ASCII characters"});
}

// Adds all commands, in the order in which `ampctl --help` lists them.
void AddCommands(CommandTree* tree) {
  tree->AddCommand(JobCommands());
  tree->AddCommand(InitCommand());
  tree->AddCommand(CompareCommand());
  tree->AddCommand(EstimateCommand());
  tree->AddCommand(CheckpointCommands());
  tree->AddCommand(ArtifactCommands());
  tree->AddCommand(PolicyCommands());
  tree->AddCommand(DataCommands());
  tree->AddCommand(ModelCommands());
  tree->AddCommand(WorkerCommands());
  tree->AddCommand(LoginCommand());
  tree->AddCommand(AuthCommands());
  tree->AddCommand(AuditCommand());
  tree->AddCommand(ContextCommands());
  tree->AddCommand(DevCommand());
  tree->AddCommand(HealthCommand());
  tree->AddCommand(CompletionCommand());
  tree->AddCommand(HelpCommand(tree));
  tree->AddCommand(VersionCommand());
}

// The hidden command `ampctl __complete`, which the completion script runs.
int PrintCandidates(const CommandTree& tree, const std::vector<std::string>& words) {
  for (const std::string& candidate : Complete(tree, words)) {
    WriteFormatted("%s\n", candidate.c_str());
  }
  return 0;
}

// Prints the help that the words ask for with --help, or an error if they name a command that does not exist.
int PrintAskedHelp(const CommandTree& tree, const std::vector<std::string>& words) {
  const ReadWords read = Read(*tree.root(), words);
  if (!read.unknown.empty()) {
    return FailUnknownCommand(*read.command, words, read.unknown);
  }
  WriteProse(HelpOf(*read.command));
  return kExitOk;
}

int Main(int argc, char** argv) {
  CLI::App root("ampctl: run and watch mixed-precision training jobs", "ampctl");
  UseOwnUsageLine(&root);
  root.require_subcommand(1)->fallthrough();
  root.set_version_flag("--version", VersionLine("ampctl"), "Print the version and exit");
  root.set_help_flag("-h,--help", "Print this help and exit");
  CommandTree tree(&root);
  GlobalOptions options;
  std::string format;
  AddGlobalOptions(&tree, &options, &format);
  AddCommands(&tree);
  AddFooters(tree);
  if (argc > 1 && std::string_view(argv[1]) == "__complete") {
    return PrintCandidates(tree, {argv + 2, argv + argc});
  }
  try {
    root.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return PrintAskedHelp(tree, {argv + 1, argv + argc});
  } catch (const CLI::CallForVersion&) {
    WriteText(VersionLine("ampctl") + "\n");
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return FailUsage(tree, error, argc, argv);
  }
  const Command& command = tree.CommandOf(tree.selected());
  if (!HasFormat(command.formats, options.output)) {
    return FailFormat(tree, options.output);
  }
  options.has_names = HasFormat(command.formats, OutputFormat::kName);
  Session session(options);
  const int exit_code = command.run(&session);
  if (const std::string why = CloseOutput(); !why.empty()) {
    WriteMessage(absl::StrCat("error: cannot write to standard output: ", why, "\n"));
    return exit_code == kExitOk ? kExitFailure : exit_code;
  }
  return exit_code;
}

}  // namespace
}  // namespace ampd::client

int main(int argc, char** argv) {
  ampd::ResolveNamesAsTheSystemDoes();
  return ampd::client::Main(argc, argv);
}
