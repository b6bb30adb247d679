#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/usage.h"
#include "client/commands/commands.h"

namespace ampd::client {

// What the command line asks for: options that outlive the parse, and the command.
struct CommandLine {
  GlobalOptions global;
  std::function<int(Session*)> command;
  const CLI::App* app = nullptr;  // of `command`
  CommandFormats formats;
  std::string id;
  std::vector<std::string> ids;
  std::string name;
  std::string text;
  std::string format;
  bool yes = false;
  bool live_only = false;
  int downsample_to = 0;
  std::string retry_for = "10s";
  std::string timeout = "inf";
  std::string answer_timeout = "1m";
  std::string interval = "5s";
  SubmitOptions submit;
  ListOptions list;
  WatchOptions watch;
  ScaleOptions scale;
  LogsOptions logs;
  DevOptions dev;
  PolicyOptions policy;
  CheckpointOptions checkpoint;
  ArtifactOptions artifact;
  InspectDataOptions data;
  TokenizeOptions tokenize;
  PackImagesOptions pack;
  InspectModelOptions model;
};

// What -o may be for a command.
FormatSet Text();
FormatSet All();
FormatSet AllBut(const FormatSet& left_out);

// REQUIRES: CheckDuration found nothing.
absl::Duration DurationOf(const std::string& text);

// Checks of arguments: empty, or what is wrong.
std::string CheckDuration(const std::string& text);
std::string CheckCount(const std::string& text);
std::string CheckPositiveCount(const std::string& text);
std::string CheckPositive(const std::string& text);
std::string CheckNotEmpty(const std::string& text);
// One that names what may stand.
std::function<std::string(const std::string&)> OneOf(std::vector<std::string> words);

// A subcommand that runs `command` after the parse, and what -o may be for it.
CLI::App* AddCommand(CLI::App* parent, const char* name, const char* help, CommandLine* line,
                     std::function<int(Session*)> command, FormatSet formats);
void AddId(CLI::App* app, CommandLine* line);

// Groups of commands, below `root`.
void AddJobs(CLI::App* root, CommandLine* line);         // job_commands.cc
void AddCheckpoints(CLI::App* root, CommandLine* line);  // resource_commands.cc, as the next five
void AddArtifacts(CLI::App* root, CommandLine* line);
void AddPolicies(CLI::App* root, CommandLine* line);
void AddData(CLI::App* root, CommandLine* line);
void AddModels(CLI::App* root, CommandLine* line);
void AddWorkersAndContexts(CLI::App* root, CommandLine* line);

}  // namespace ampd::client
