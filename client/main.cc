#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/commands.h"
#include "client/commands/completion.h"
#include "client/completer.h"
#include "client/usage.h"

namespace {

using ampd::client::FormatSet;
using ampd::client::GlobalOptions;
using ampd::client::OutputFormat;
using ampd::client::Session;

// What the command line asks for: options that outlive the parse, and the command.
struct CommandLine {
  GlobalOptions global;
  std::function<int(Session*)> command;
  const CLI::App* app = nullptr;  // of `command`
  ampd::client::CommandFormats formats;
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
  ampd::client::SubmitOptions submit;
  ampd::client::ListOptions list;
  ampd::client::WatchOptions watch;
  ampd::client::ScaleOptions scale;
  ampd::client::LogsOptions logs;
  ampd::client::DevOptions dev;
  ampd::client::PolicyOptions policy;
  ampd::client::CheckpointOptions checkpoint;
};

FormatSet Text() { return {OutputFormat::kTable}; }
FormatSet All() { return ampd::client::AllFormats(); }
FormatSet AllBut(const FormatSet& left_out) { return ampd::client::AllFormatsBut(left_out); }

absl::Duration DurationOf(const std::string& text) {
  absl::Duration duration;
  absl::ParseDuration(text, &duration);
  return duration;
}

std::string CheckDuration(const std::string& text) {
  absl::Duration duration;
  return absl::ParseDuration(text, &duration) && duration >= absl::ZeroDuration()
             ? ""
             : absl::StrCat("'", text, "' is not a duration such as 90s or 1h30m");
}

std::string CheckCount(const std::string& text) {
  int64_t count = 0;
  return absl::SimpleAtoi(text, &count) && count >= 0 ? "" : absl::StrCat("'", text, "' is no whole number from 0 up");
}

std::string CheckNotEmpty(const std::string& text) { return text.empty() ? "must not be empty" : ""; }

// A subcommand that runs `command` after the parse, and what -o may be for it.
CLI::App* AddCommand(CLI::App* parent, const char* name, const char* help, CommandLine* line,
                     std::function<int(Session*)> command, FormatSet formats) {
  CLI::App* app = parent->add_subcommand(name, help);
  line->formats[app] = std::move(formats);
  app->callback([line, app, command = std::move(command)] {
    line->app = app;
    line->command = command;
  });
  app->fallthrough();
  return app;
}

void AddId(CLI::App* app, CommandLine* line) {
  app->add_option("id", line->id, "Job id")->required()->check(CheckNotEmpty)->option_text("ID");
}

void AddJobChanges(CLI::App* job, CommandLine* line) {
  using ampd::client::JobVerb;
  const std::tuple<const char*, const char*, JobVerb> verbs[] = {
      {"cancel", "End jobs for good; checkpoints stay", JobVerb::kCancel},
      {"pause", "Checkpoint and leave the device", JobVerb::kPause},
      {"resume", "Queue paused jobs again", JobVerb::kResume},
      {"delete", "Remove finished jobs with history and checkpoints", JobVerb::kDelete}};
  for (const auto& [name, help, verb] : verbs) {
    CLI::App* app = AddCommand(
        job, name, help, line,
        [line, verb = verb](Session* session) { return ApplyVerb(session, verb, line->ids, line->yes); },
        AllBut({OutputFormat::kWide}));
    app->add_option("ids", line->ids, "Job ids")->required()->check(CheckNotEmpty)->option_text("ID...");
    if (verb == JobVerb::kDelete) {
      app->add_flag("-y,--yes", line->yes, "Do not ask");
    }
  }
  for (const bool retry : {true, false}) {
    CLI::App* app = AddCommand(
        job, retry ? "retry" : "clone",
        retry ? "Submit again, from the last checkpoint" : "Submit again, from the start", line,
        [line, retry](Session* session) {
          return CloneJob(session, line->id, line->name, retry, DurationOf(line->retry_for));
        },
        AllBut({OutputFormat::kWide}));
    AddId(app, line);
    app->add_option("--name", line->name, "Name of the new job; that of the old one without")->option_text("NAME");
  }
}

void AddSubmit(CLI::App* job, CommandLine* line) {
  CLI::App* app = AddCommand(
      job, "submit", "Submit a job file", line,
      [line](Session* session) {
        line->submit.retry_for = DurationOf(line->retry_for);
        return Submit(session, line->submit);
      },
      AllBut({OutputFormat::kWide}));
  app->add_option("-f,--file", line->submit.file, "Job file, - for standard input")->required()->option_text("FILE");
  app->add_option("--set", line->submit.overrides, "Over the file, for example train.epochs=2; repeatable")
      ->allow_extra_args(false)
      ->option_text("PATH=VALUE");
  app->add_option("--name", line->submit.name, "Name over the file's")->option_text("NAME");
  app->add_flag("--dry-run", line->submit.dry_run, "Let the server check it; submit nothing");
  app->add_flag("--follow", line->submit.follow, "Watch it to its end");
  app->add_option("--retry-for", line->retry_for, "How long an unreachable server is tried; 10s without")
      ->check(CheckDuration)
      ->option_text("DURATION");
}

void AddStreams(CLI::App* job, CommandLine* line) {
  CLI::App* watch = AddCommand(
      job, "watch", "Follow a job live", line,
      [line](Session* session) {
        line->watch.id = line->id;
        line->watch.from_start = !line->live_only;
        line->watch.interval = DurationOf(line->interval);
        return Watch(session, line->watch);
      },
      AllBut({OutputFormat::kWide, OutputFormat::kName}));
  AddId(watch, line);
  watch->add_flag("--live-only", line->live_only, "Leave out what was before");
  watch->add_option("--interval", line->interval, "Between lines where stdout is no terminal; 5s without")
      ->check(CheckDuration)
      ->option_text("DURATION");
  CLI::App* logs = AddCommand(
      job, "logs", "What the trainer wrote", line,
      [line](Session* session) {
        line->logs.id = line->id;
        return Logs(session, line->logs);
      },
      Text());
  AddId(logs, line);
  logs->add_flag("-f,--follow", line->logs.follow, "Go on with what comes");
  logs->add_option("--attempt", line->logs.attempt, "Which attempt; the newest one without")->option_text("N");
  logs->add_option("--tail-bytes", line->logs.tail_bytes, "Only so many bytes before the end")
      ->check(CheckCount)
      ->option_text("N");
  CLI::App* wait = AddCommand(
      job, "wait", "Wait for the end of jobs", line,
      [line](Session* session) { return Wait(session, line->ids, DurationOf(line->timeout)); }, All());
  wait->add_option("ids", line->ids, "Job ids")->required()->check(CheckNotEmpty)->option_text("ID...");
  wait->add_option("--timeout", line->timeout, "Give up after, with exit code 7")
      ->check(CheckDuration)
      ->option_text("DURATION");
}

void AddLive(CLI::App* job, CommandLine* line) {
  CLI::App* scale = AddCommand(
      job, "scale", "Set its loss scale while it runs", line,
      [line](Session* session) {
        line->scale.id = line->id;
        return SetScale(session, line->scale);
      },
      AllBut({OutputFormat::kWide}));
  AddId(scale, line);
  scale->add_option("--set-scale", line->scale.scale, "The scale from the next step on; it starts a new interval")
      ->option_text("X");
  scale->add_option("--growth-interval", line->scale.growth_interval, "Applied steps in a row until it grows")
      ->option_text("N");
  CLI::App* gradients = AddCommand(
      job, "gradients", "How its gradients fill their range", line,
      [line](Session* s) { return Gradients(s, line->id, DurationOf(line->answer_timeout)); },
      AllBut({OutputFormat::kWide, OutputFormat::kName}));
  AddId(gradients, line);
  gradients->add_option("--timeout", line->answer_timeout, "Give up after, with exit code 7; 1m without")
      ->check(CheckDuration)
      ->option_text("DURATION");
}

void AddJobs(CLI::App* root, CommandLine* line) {
  CLI::App* job = root->add_subcommand("job", "Jobs")->require_subcommand(1)->fallthrough();
  AddSubmit(job, line);
  CLI::App* list = AddCommand(
      job, "list", "Newest first", line, [line](Session* session) { return ListJobs(session, line->list); }, All());
  list->alias("ls");
  list->add_option("--filter", line->list.filter, "Terms joined by AND: state=, name=, queue=, labels.KEY=, id=")
      ->option_text("TERMS");
  list->add_option("--limit", line->list.limit, "At most so many, 50 without; 0: all")
      ->check(CheckCount)
      ->option_text("N");
  AddId(AddCommand(
            job, "show", "All about a job", line, [line](Session* s) { return ShowJob(s, line->id); }, All()),
        line);
  AddId(AddCommand(
            job, "explain", "Why is it in its state?", line, [line](Session* s) { return Explain(s, line->id); },
            AllBut({OutputFormat::kName})),
        line);
  AddId(AddCommand(
            job, "events", "What happened to it", line, [line](Session* s) { return Events(s, line->id); },
            AllBut({OutputFormat::kName})),
        line);
  CLI::App* points = AddCommand(
      job, "points", "Its metric points", line, [line](Session* s) { return Points(s, line->id, line->downsample_to); },
      AllBut({OutputFormat::kName}));
  AddId(points, line);
  points->add_option("--downsample-to", line->downsample_to, "At most so many points; 0: all")
      ->check(CheckCount)
      ->option_text("N");
  AddStreams(job, line);
  AddLive(job, line);
  AddJobChanges(job, line);
}

void AddCheckpoints(CLI::App* root, CommandLine* line) {
  CLI::App* group = root->add_subcommand("checkpoint", "Checkpoints of jobs")->require_subcommand(1)->fallthrough();
  CLI::App* list = AddCommand(
      group, "list", "Those a job keeps, oldest first", line,
      [line](Session* s) { return ListCheckpoints(s, line->id); }, All());
  list->alias("ls");
  AddId(list, line);
  CLI::App* show = AddCommand(
      group, "show", "What a checkpoint is and, of a folder, its tensors", line,
      [line](Session* s) { return ShowCheckpoint(s, line->checkpoint); }, AllBut({OutputFormat::kName}));
  CLI::App* verify = AddCommand(
      group, "verify", "Hold a folder's files against its manifest", line,
      [line](Session* s) { return VerifyCheckpoint(s, line->checkpoint); },
      AllBut({OutputFormat::kWide, OutputFormat::kName}));
  verify->add_flag("--recorded", line->checkpoint.recorded, "And the manifest against what the server recorded");
  CLI::App* exported = AddCommand(
      group, "export", "Write a folder's model to a safetensors file", line,
      [line](Session* s) { return ExportCheckpoint(s, line->checkpoint); },
      AllBut({OutputFormat::kWide, OutputFormat::kName}));
  CLI::App* remove = AddCommand(
      group, "delete", "Remove a checkpoint for good", line,
      [line](Session* s) { return DeleteCheckpoint(s, line->checkpoint, line->yes); }, AllBut({OutputFormat::kWide}));
  const auto add_target = [line](CLI::App* app, const char* help, const char* text) {
    app->add_option("target", line->checkpoint.target, help)->required()->check(CheckNotEmpty)->option_text(text);
  };
  add_target(show, "Job id, or a checkpoint's folder on this machine", "ID|FOLDER");
  add_target(verify, "A checkpoint's folder on this machine", "FOLDER");
  add_target(exported, "A checkpoint's folder on this machine", "FOLDER");
  add_target(remove, "Job id", "ID");
  exported->add_option("file", line->checkpoint.file, "To write")
      ->required()
      ->check(CheckNotEmpty)
      ->option_text("FILE");
  exported->add_flag("--averages", line->checkpoint.averages, "The averages that optimizer.ema_decay keeps");
  exported->add_flag("--force", line->checkpoint.replace, "Replace a file that is there");
  show->add_option("step", line->checkpoint.step, "Of the job's; the newest without")->option_text("[STEP]");
  remove->add_option("step", line->checkpoint.step, "Of the checkpoint")->required()->option_text("STEP");
  for (CLI::App* app : {show, remove}) {
    app->add_option("--attempt", line->checkpoint.attempt, "Which attempt's; the newest one's without")
        ->option_text("N");
  }
  remove->add_flag("-y,--yes", line->yes, "Do not ask");
}

// A check that names what may stand.
std::function<std::string(const std::string&)> OneOf(std::vector<std::string> words) {
  return [words = std::move(words)](const std::string& text) {
    const bool known = std::find(words.begin(), words.end(), text) != words.end();
    return known ? std::string() : absl::StrCat("'", text, "' is none of ", absl::StrJoin(words, ", "));
  };
}

void AddPolicies(CLI::App* root, CommandLine* line) {
  CLI::App* policy = root->add_subcommand("policy", "Precision policies")->require_subcommand(1)->fallthrough();
  AddCommand(
      policy, "list", "The presets", line, [](Session* s) { return ListPolicies(s); }, AllBut({OutputFormat::kWide}))
      ->alias("ls");
  CLI::App* show = AddCommand(
      policy, "show", "What a policy does to a model", line, [line](Session* s) { return ShowPolicy(s, line->policy); },
      AllBut({OutputFormat::kWide, OutputFormat::kName}));
  show->add_option("preset", line->policy.preset, "Preset, as in ampctl policy list; that of the job file without")
      ->option_text("[PRESET]");
  show->add_option("--model", line->policy.model, "lenet, mlp, resnet or gpt2; that of the job file, or lenet, without")
      ->check(OneOf({"lenet", "mlp", "resnet", "gpt2"}))
      ->option_text("MODEL");
  show->add_option("-f,--file", line->policy.file, "Job file with model, rules and optimizer, - for standard input")
      ->option_text("FILE");
  show->add_option("--device", line->policy.device,
                   "gpu (compute capability 9.0) or cpu (with avx512_bf16); gpu without")
      ->check(OneOf({"gpu", "cpu"}))
      ->option_text("KIND");
}

void AddData(CLI::App* root, CommandLine* line) {
  CLI::App* data = root->add_subcommand("data", "Files of datasets")->require_subcommand(1)->fallthrough();
  AddCommand(
      data, "inspect", "What is in a file on this machine, and what is wrong with it", line,
      [line](Session* s) { return InspectData(s, line->text); }, AllBut({OutputFormat::kWide, OutputFormat::kName}))
      ->add_option("path", line->text, "File, of a format in docs/data.md")
      ->required()
      ->check(CheckNotEmpty)
      ->option_text("FILE");
}

void AddWorkersAndContexts(CLI::App* root, CommandLine* line) {
  CLI::App* worker = root->add_subcommand("worker", "Workers and their devices")->require_subcommand(1)->fallthrough();
  AddCommand(
      worker, "list", "All workers", line, [](Session* s) { return ListWorkers(s); }, All())
      ->alias("ls");
  for (const bool drain : {true, false}) {
    AddCommand(
        worker, drain ? "drain" : "undrain",
        drain ? "Give it no new work; its jobs checkpoint and move" : "Take a drain back", line,
        [line, drain](Session* s) { return SetDrained(s, line->name, drain); }, All())
        ->add_option("name", line->name, "Worker, as in ampctl worker list")
        ->required()
        ->check(CheckNotEmpty)
        ->option_text("NAME");
  }
  CLI::App* context = root->add_subcommand("context", "Servers by name")->require_subcommand(1)->fallthrough();
  CLI::App* add = AddCommand(
      context, "add", "Name a server", line, [line](Session* s) { return AddContext(s, line->name, line->text); },
      Text());
  add->add_option("name", line->name, "One word")->required()->option_text("NAME");
  add->add_option("server", line->text, "Where it listens")->required()->option_text("HOST:PORT");
  AddCommand(
      context, "use", "Use it from now on", line, [line](Session* s) { return UseContext(s, line->name); }, Text())
      ->add_option("name", line->name, "Name, as in ampctl context list")
      ->required()
      ->option_text("NAME");
  AddCommand(
      context, "list", "All names", line, [](Session* s) { return ListContexts(s); }, AllBut({OutputFormat::kWide}));
  AddCommand(
      context, "show", "The address that would be used, and why", line, [](Session* s) { return ShowContext(s); },
      AllBut({OutputFormat::kWide, OutputFormat::kName}));
}

void AddDev(CLI::App* root, CommandLine* line) {
  CLI::App* dev = AddCommand(
      root, "dev", "Server and worker on this machine", line, [line](Session* s) { return Dev(s, line->dev); }, Text());
  dev->add_option("--port", line->dev.port, "Of the API, 7070 without; 0 takes a free one")->option_text("N");
  dev->add_option("--metrics-port", line->dev.metrics_port, "Of /metrics, 7071 without; 0 takes a free one")
      ->option_text("N");
  dev->add_option("--data-root", line->dev.data_roots,
                  "Folder that job files may read by that name; those in /usr/share/datasets are known")
      ->allow_extra_args(false)
      ->option_text("NAME=PATH");
  dev->add_flag("--clean", line->dev.clean, "Forget all jobs of this folder first");
}

// Empty, or why the format is none.
std::string ParseFormat(const std::string& text, OutputFormat* format) {
  const auto named = ampd::client::FormatNamed(text);
  if (!named.has_value()) {
    return absl::StrCat("there is no format '", text, "'; it is one of ", ampd::client::FormatNames(All()));
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
        std::fputs(ampd::client::BashCompletion().c_str(), stdout);
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
                       ? ampd::client::kExitCodesText
                       : root->get_formatter()->make_help(root, "ampctl", CLI::AppFormatMode::Normal).c_str(),
                   stdout);
        return 0;
      },
      Text())
      ->add_option("topic", line->text, "exit-codes")
      ->check(OneOf({"exit-codes"}))
      ->option_text("TOPIC");
}

// For the scripts of `completion`; not a command that people see.
int PrintCandidates(const CLI::App& root, const CommandLine& line, const std::vector<std::string>& words) {
  for (const std::string& candidate : ampd::client::Complete(root, line.formats, words)) {
    std::printf("%s\n", candidate.c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App root("ampctl: train with mixed precision, and watch it", "ampctl");
  CommandLine line;
  root.require_subcommand(1)->fallthrough();
  root.set_version_flag("--version", "ampctl 0.1.0", "Print the version and exit");
  root.set_help_flag("-h,--help", "Print this help and exit");
  AddGlobal(&root, &line);
  AddJobs(&root, &line);
  AddCheckpoints(&root, &line);
  AddPolicies(&root, &line);
  AddData(&root, &line);
  AddWorkersAndContexts(&root, &line);
  AddDev(&root, &line);
  AddRest(&root, &line);
  ampd::client::AddFooters(&root, line.formats);
  if (argc > 1 && std::string_view(argv[1]) == "__complete") {
    return PrintCandidates(root, line, {argv + 2, argv + argc});
  }
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? root.exit(error) : ampd::client::FailUsage(root, error, argc, argv);
  }
  if (const FormatSet& formats = line.formats[line.app]; !HasFormat(formats, line.global.output)) {
    return ampd::client::FailFormat(*line.app, line.global.output, formats);
  }
  Session session(line.global);
  return line.command(&session);
}
