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
#include "client/cli/command_line.h"
#include "client/cli/completer.h"
#include "client/cli/completion.h"
#include "client/cli/usage.h"
#include "client/commands/commands.h"
#include "client/terminal/exit_codes.h"

namespace ampd::client {
namespace {

void AddDev(CLI::App* root, CommandLine* line) {
  CLI::App* dev = AddCommand(
      root, "dev", "Server and worker on this machine", line, [line](Session* s) { return Dev(s, line->dev); }, Text());
  dev->add_option("--port", line->dev.port, "Of the API, 7070 without; 0 takes a free one")
      ->check(CheckCount)
      ->option_text("N");
  dev->add_option("--metrics-port", line->dev.metrics_port, "Of /metrics, 7071 without; 0 takes a free one")
      ->check(CheckCount)
      ->option_text("N");
  dev->add_option("--data-root", line->dev.data_roots,
                  "Folder that job files may read by that name; those in /usr/share/datasets are known")
      ->allow_extra_args(false)
      ->option_text("NAME=PATH");
  dev->add_option("--data-group", line->dev.data_group,
                  "Group whose files jobs may read, besides files that others may read")
      ->option_text("GROUP");
  dev->add_flag("--clean", line->dev.clean, "First delete all in ./.ampd: jobs, histories, checkpoints; asks before");
  dev->add_flag("-y,--yes", line->dev.confirmed, "Do not ask");
}

// Returns "" or why the text is not a format.
std::string ParseFormat(const std::string& text, OutputFormat* format) {
  const auto named = FormatNamed(text);
  if (!named.has_value()) {
    return absl::StrCat("there is no format '", text, "'; it is one of ", FormatNames(All()));
  }
  *format = *named;
  return "";
}

void AddGlobal(CLI::App* root, CommandLine* line) {
  root->add_option("--address", line->global.address, "Server, host:port or the name of a context")
      ->option_text("SERVER");
  root->add_option("-o,--output", line->format, "table, wide, json, jsonl, yaml or name")
      ->check([line](const std::string& text) { return ParseFormat(text, &line->global.output); })
      ->option_text("FORMAT");
  root->add_flag("--no-headers", line->global.no_headers, "Tables without headings");
  root->add_flag("-q,--quiet", line->global.quiet, "Ids only, no hints");
  root->add_option("--color", line->global.color, "auto (on a terminal, without NO_COLOR), always or never")
      ->check(OneOf({"auto", "always", "never"}))
      ->option_text("WHEN");
  root->add_flag("--ascii", line->global.ascii, "No characters beyond ASCII");
}

void AddRest(CLI::App* root, CommandLine* line) {
  AddCommand(
      root, "health", "Does the server take work?", line, [](Session* s) { return Health(s); },
      AllBut({OutputFormat::kWide, OutputFormat::kName}));
  AddCommand(
      root, "completion", "Completion script of a shell", line,
      [](Session*) {
        std::fputs(BashCompletion().c_str(), stdout);
        return 0;
      },
      Text())
      ->add_option("shell", line->text, "bash")
      ->required()
      ->check(OneOf({"bash"}))
      ->option_text("SHELL");
  AddCommand(
      root, "help", "Help on a topic: exit-codes", line,
      [root, line](Session*) {
        std::fputs(line->text == "exit-codes"
                       ? kExitCodesText
                       : root->get_formatter()->make_help(root, "ampctl", CLI::AppFormatMode::Normal).c_str(),
                   stdout);
        return 0;
      },
      Text())
      ->add_option("topic", line->text, "exit-codes")
      ->check(OneOf({"exit-codes"}))
      ->option_text("TOPIC");
}

// The hidden command that the completion scripts run.
int PrintCandidates(const CLI::App& root, const CommandLine& line, const std::vector<std::string>& words) {
  for (const std::string& candidate : Complete(root, line.formats, words)) {
    std::printf("%s\n", candidate.c_str());
  }
  return 0;
}

// Fails if the output could not be written, for example to a full disk. A reader that closes the pipe early is fine.
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
  CommandLine line;
  root.require_subcommand(1)->fallthrough();
  root.set_version_flag("--version", VersionLine("ampctl"), "Print the version and exit");
  root.set_help_flag("-h,--help", "Print this help and exit");
  AddGlobal(&root, &line);
  AddJobs(&root, &line);
  AddCheckpoints(&root, &line);
  AddArtifacts(&root, &line);
  AddPolicies(&root, &line);
  AddData(&root, &line);
  AddModels(&root, &line);
  AddWorkersAndContexts(&root, &line);
  AddDev(&root, &line);
  AddRest(&root, &line);
  AddFooters(&root, line.formats);
  if (argc > 1 && std::string_view(argv[1]) == "__complete") {
    return PrintCandidates(root, line, {argv + 2, argv + argc});
  }
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? root.exit(error) : FailUsage(root, error, argc, argv);
  }
  if (const FormatSet& formats = line.formats[line.app]; !HasFormat(formats, line.global.output)) {
    return FailFormat(*line.app, line.global.output, formats);
  }
  Session session(line.global);
  return CloseOutput(line.command(&session));
}

}  // namespace
}  // namespace ampd::client

int main(int argc, char** argv) { return ampd::client::Main(argc, argv); }
