#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/usage.h"
#include "client/commands/commands.h"

namespace ampd::client {

// The parsed command line: the command, and the options that it needs after the parse.
struct CommandLine {
  GlobalOptions global;
  std::function<int(Session*)> command;
  const CLI::App* app = nullptr;  // the CLI11 subcommand of `command`
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

// Sets of -o formats that commands support.
FormatSet Text();
FormatSet All();
FormatSet AllBut(const FormatSet& left_out);

// REQUIRES: CheckDuration(text) returns "".
absl::Duration DurationOf(const std::string& text);

// Checks of arguments. Each returns "" if the argument is valid, otherwise the problem.
std::string CheckDuration(const std::string& text);
std::string CheckCount(const std::string& text);
std::string CheckPositiveCount(const std::string& text);
std::string CheckPositive(const std::string& text);
std::string CheckNotEmpty(const std::string& text);
// Makes a check that accepts only these words.
std::function<std::string(const std::string&)> OneOf(std::vector<std::string> words);

// Adds a subcommand that runs `command` after the parse and supports the -o values `formats`.
CLI::App* AddCommand(CLI::App* parent, const char* name, const char* help, CommandLine* line,
                     std::function<int(Session*)> command, FormatSet formats);
void AddId(CLI::App* app, CommandLine* line);

// Add groups of commands below `root`.
void AddJobs(CLI::App* root, CommandLine* line);         // job_commands.cc
void AddCheckpoints(CLI::App* root, CommandLine* line);  // resource_commands.cc, as the five below
void AddArtifacts(CLI::App* root, CommandLine* line);
void AddPolicies(CLI::App* root, CommandLine* line);
void AddData(CLI::App* root, CommandLine* line);
void AddModels(CLI::App* root, CommandLine* line);
void AddWorkersAndContexts(CLI::App* root, CommandLine* line);

}  // namespace ampd::client
