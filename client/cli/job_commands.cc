// Options of ampctl job.
#include <tuple>

#include "client/cli/command_line.h"

namespace ampd::client {
namespace {

void AddJobChanges(CLI::App* job, CommandLine* line) {
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
    app->add_option("--name", line->name, "Name of the new job (default: the name of the old one)")
        ->option_text("NAME");
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
  app->add_option("--retry-for", line->retry_for, "How long to retry an unreachable server (default 10s)")
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
  watch->add_option("--interval", line->interval, "Time between lines if stdout is not a terminal (default 5s)")
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
  logs->add_option("--attempt", line->logs.attempt, "Number of the attempt (default: the newest)")
      ->check(CheckPositiveCount)
      ->option_text("N");
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
      ->check(CheckPositive)
      ->option_text("X");
  scale->add_option("--growth-interval", line->scale.growth_interval, "Applied steps in a row until it grows")
      ->check(CheckPositiveCount)
      ->option_text("N");
  CLI::App* gradients = AddCommand(
      job, "gradients", "How its gradients fill their range", line,
      [line](Session* s) { return Gradients(s, line->id, DurationOf(line->answer_timeout)); },
      AllBut({OutputFormat::kWide, OutputFormat::kName}));
  AddId(gradients, line);
  gradients->add_option("--timeout", line->answer_timeout, "Give up after this time, with exit code 7 (default 1m)")
      ->check(CheckDuration)
      ->option_text("DURATION");
}

}  // namespace

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
  list->add_option("--page-token", line->list.page_token, "Go on where a list that was cut says so")
      ->option_text("TOKEN");
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

}  // namespace ampd::client
