#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "client/cli/command_tree.h"
#include "client/cli/completer.h"
#include "client/cli/completion.h"
#include "client/cli/help.h"
#include "client/cli/usage.h"
#include "client/commands/artifact/artifact.h"
#include "client/commands/checkpoint/checkpoint.h"
#include "client/commands/context/context.h"
#include "client/commands/data/data.h"
#include "client/commands/dev/dev.h"
#include "client/commands/job/job.h"
#include "client/commands/model/model.h"
#include "client/commands/policy/policy.h"
#include "client/commands/server/health.h"
#include "client/commands/suggestions.h"
#include "client/commands/worker/worker.h"
#include "client/terminal/exit_codes.h"

namespace ampd::client {
namespace {

// Sets `format` to the format that the text names. Returns "", or the error if it names none.
std::string ParseFormat(const std::string& text, OutputFormat* format) {
  const auto named = FormatNamed(text);
  if (!named.has_value()) {
    return absl::StrCat("there is no format '", text, "'; it is one of ", FormatNames(AllFormats()));
  }
  *format = *named;
  return "";
}

void AddGlobalOptions(CommandTree* tree, GlobalOptions* options, std::string* format) {
  tree->AddGlobal({.name = "--address",
                   .value = &options->address,
                   .text = "SERVER",
                   .help = "Server to use: HOST:PORT or the name of a context",
                   .suggest = SuggestContexts});
  tree->AddGlobal({.name = "-o,--output",
                   .value = format,
                   .text = "FORMAT",
                   .help = "Output format: table, wide, json, jsonl, yaml or name (default table)",
                   .check = [options](const std::string& text) { return ParseFormat(text, &options->output); }});
  tree->AddGlobal({.name = "--no-headers", .value = &options->no_headers, .help = "Print tables without headings"});
  tree->AddGlobal({.name = "-q,--quiet", .value = &options->quiet, .help = "Print only ids or names, and no hints"});
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
  tree->AddCommand(CheckpointCommands());
  tree->AddCommand(ArtifactCommands());
  tree->AddCommand(PolicyCommands());
  tree->AddCommand(DataCommands());
  tree->AddCommand(ModelCommands());
  tree->AddCommand(WorkerCommands());
  tree->AddCommand(ContextCommands());
  tree->AddCommand(DevCommand());
  tree->AddCommand(HealthCommand());
  tree->AddCommand(CompletionCommand());
  tree->AddCommand(HelpCommand(tree));
}

// The hidden command `ampctl __complete`, which the completion script runs.
int PrintCandidates(const CommandTree& tree, const std::vector<std::string>& words) {
  for (const std::string& candidate : Complete(tree, words)) {
    std::printf("%s\n", candidate.c_str());
  }
  return 0;
}

// Writes the rest of the output. Returns `exit_code`, or a failure if the output could not be written, for example
// because the disk is full. It is no failure if the reader closed the pipe early.
int CloseOutput(int exit_code) {
  const bool is_flushed = std::fflush(stdout) == 0;
  const std::string why = is_flushed ? "a write failed" : std::strerror(errno);
  pollfd reader = {STDOUT_FILENO, POLLOUT, 0};
  if ((is_flushed && std::ferror(stdout) == 0) || (poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0)) {
    return exit_code;
  }
  std::fprintf(stderr, "error: cannot write to standard output: %s\n", why.c_str());
  return exit_code == kExitOk ? kExitFailure : exit_code;
}

int Main(int argc, char** argv) {
  CLI::App root("ampctl: train with mixed precision, and watch it", "ampctl");
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
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? root.exit(error) : FailUsage(tree, error, argc, argv);
  }
  const Command& command = tree.CommandOf(tree.selected());
  if (!HasFormat(command.formats, options.output)) {
    return FailFormat(tree, options.output);
  }
  Session session(options);
  return CloseOutput(command.run(&session));
}

}  // namespace
}  // namespace ampd::client

int main(int argc, char** argv) { return ampd::client::Main(argc, argv); }
