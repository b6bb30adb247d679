#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/api/artifact_transfer.h"
#include "client/api/job_watch.h"
#include "client/commands/arguments.h"
#include "client/commands/job/create.h"
#include "client/commands/job/follow/detach.h"
#include "client/commands/job/job.h"
#include "client/commands/job/refusal.h"
#include "client/commands/job_checkpoint.h"
#include "client/commands/job_source.h"
#include "client/commands/output_file.h"
#include "client/commands/stdout_content.h"
#include "client/commands/transfer.h"
#include "client/jobfile/job_file.h"
#include "client/render/format.h"
#include "client/render/job_text.h"
#include "client/render/shell_word.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

using v1::PredictSpec;

struct PredictOptions {
  std::string checkpoint;  // "JOB", "JOB@best" or "JOB@STEP"
  std::string file;        // job file with data.predict; "-": standard input
  std::vector<std::string> overrides;
  std::string name;
  std::string request_id;
  std::string output;  // file for the predictions, "-": stdout; empty: the predictions stay on the server
  bool replace = false;
};

// Returns the spec of a job that predicts with the weights of `trained`. The spec has no data yet.
v1::JobSpec PredictingSpec(const v1::Job& trained, int64_t step) {
  constexpr size_t kMaxNameBytes = 63;
  const std::string suffix = "-predict";
  v1::JobSpec spec;
  spec.set_name(trained.spec().name().substr(0, kMaxNameBytes - suffix.size()) + suffix);
  *spec.mutable_model() = trained.spec().model();
  spec.mutable_model()->clear_initial_weights();
  spec.mutable_model()->clear_initialize_anew();
  spec.mutable_model()->mutable_initial_checkpoint()->set_job_id(trained.id());
  spec.mutable_model()->mutable_initial_checkpoint()->set_step(step);
  *spec.mutable_precision() = trained.spec().precision();
  spec.mutable_resources()->set_kind(trained.spec().resources().kind());
  const v1::DataSpec& data = trained.spec().data();
  spec.mutable_data()->set_batch_size(data.eval_batch_size() > 0 ? data.eval_batch_size() : data.batch_size());
  spec.mutable_predict();
  return spec;
}

// Waits until the job has ended, and returns the job. Returns nothing if the user pressed Ctrl-C.
absl::StatusOr<std::optional<v1::Job>> AwaitEnd(JobClient* client, const std::string& id, Cancellation* interrupt) {
  JobWatch watch(client, {.id = id}, interrupt);
  std::optional<v1::Job> job;
  for (;;) {
    v1::WatchJobResponse message;
    switch (watch.Pull(absl::InfiniteDuration(), &message)) {
      case JobWatch::Next::kMessage:
        job = message.has_final() ? std::optional(message.final()) : job;
        break;
      case JobWatch::Next::kCancelled:
        return std::optional<v1::Job>();
      case JobWatch::Next::kEnded:
        return watch.status().ok() ? absl::StatusOr<std::optional<v1::Job>>(std::move(job)) : watch.status();
      default:
        break;
    }
  }
}

bool IsPredictions(const v1::Artifact& artifact) { return absl::StartsWith(artifact.file_name(), "predictions-"); }

// Returns the prediction files of a job that succeeded, in the order of their samples. DATA_LOSS if the server dropped
// a file of the last attempt.
absl::StatusOr<std::vector<v1::Artifact>> PredictionsOf(JobClient* client, const v1::Job& job) {
  const std::string& id = job.id();
  AMPD_ASSIGN_OR_RETURN(const v1::ListEventsResponse events, client->ListEvents(id));
  for (const v1::Event& event : events.events()) {
    if (event.kind() == v1::Event::TELEMETRY_REFUSED && event.attempt() == job.num_attempts()) {
      return absl::DataLossError(absl::StrCat("the predictions of job ", id, " are incomplete: ", event.message()));
    }
  }
  AMPD_ASSIGN_OR_RETURN(std::vector<v1::Artifact> artifacts, client->ListArtifacts(id));
  artifacts.erase(
      std::remove_if(artifacts.begin(), artifacts.end(), [](const auto& one) { return !IsPredictions(one); }),
      artifacts.end());
  std::sort(artifacts.begin(), artifacts.end(),
            [](const auto& a, const auto& b) { return a.file_name() < b.file_name(); });
  return artifacts;
}

// Writes all predictions of the job into one file.
absl::Status WritePredictions(Session* session, JobClient* client, const v1::Job& job, const PredictOptions& options,
                              Cancellation* interrupt) {
  AMPD_ASSIGN_OR_RETURN(const std::vector<v1::Artifact> artifacts, PredictionsOf(client, job));
  if (options.output == "-") {
    return PrintContents(session, client, artifacts, interrupt);
  }
  ProgressLine line(*session);
  const absl::Status done = DownloadJoined(client, artifacts, options.output, options.replace,
                                           OptionsWithBar(&line, kDefaultRetry, interrupt));
  line.Clear();
  AMPD_RETURN_IF_ERROR(done);
  int64_t size = 0;
  for (const v1::Artifact& artifact : artifacts) {
    size += artifact.size_bytes();
  }
  session->Note(absl::StrCat(options.output, ": ", FormatBytes(size)));
  return absl::OkStatus();
}

int FollowAndWrite(Session* session, JobClient* client, const std::string& id, const PredictOptions& options,
                   Cancellation* interrupt) {
  const auto ended = AwaitEnd(client, id, interrupt);
  if (!ended.ok()) {
    return session->Fail(ended.status());
  }
  if (!ended->has_value()) {
    return DetachAfterEcho(session, id, "wait");
  }
  const v1::Job& job = **ended;
  if (job.state() != v1::Job::SUCCEEDED) {
    session->Warn(absl::StrCat("job ", Printable(id), " is ", v1::Job::State_Name(job.state()), ": ",
                               Printable(job.message()), "\n  log: ", session->Command("job logs "), Printable(id)));
    return ExitCodeOf(job.state());
  }
  const absl::Status written = WritePredictions(session, client, job, options, interrupt);
  return written.ok() ? kExitOk : session->Fail(AsOutputError(written));
}

// Returns the spec to submit: the spec of the trained job, overridden by the fields of the job file.
absl::StatusOr<v1::JobSpec> MakeSpec(const Session& session, JobClient* client, const PredictOptions& options,
                                     const v1::JobSpec& from_file) {
  AMPD_ASSIGN_OR_RETURN(const JobCheckpoint wanted, ParseJobCheckpoint("--checkpoint", options.checkpoint));
  AMPD_ASSIGN_OR_RETURN(const FoundCheckpoint trained, FindJobCheckpoint(client, wanted));
  if (!IsTerminal(trained.job.state())) {
    return Error(absl::StatusCode::kFailedPrecondition, "WRONG_STATE",
                 absl::StrCat("--checkpoint: job ", trained.job.id(), " is ", v1::Job::State_Name(trained.job.state()),
                              ", and only the checkpoints of ended jobs can be used; let it end (",
                              trained.job.state() == v1::Job::PAUSED ? "resume it: " + session.Command("job resume ")
                                                                     : session.Command("job wait "),
                              trained.job.id(), "), or end it: ", session.Command("job cancel "), trained.job.id()));
  }
  v1::JobSpec spec = PredictingSpec(trained.job, trained.checkpoint.step());
  if (from_file.has_precision()) {
    spec.clear_precision();  // Merging two policies would give a third one.
  }
  spec.MergeFrom(from_file);
  return spec;
}

// If the job file has a model, prints an error and returns the exit code: a prediction uses the model of the trained
// job. Returns nothing if the file has no model.
std::optional<int> FailWithModel(const SubmittedFile& submitted) {
  if (!submitted.file.spec.has_model()) {
    return std::nullopt;
  }
  return FailWithProblems({{submitted.file.marks.at("model"), "",
                            "the file has a model, but a prediction uses the model of the trained job; remove `model` "
                            "from the file, and name the inputs in data.predict; to train the file's model: ampctl "
                            "job submit"}},
                          {.command = submitted.command});
}

// Checks the options before anything is submitted.
absl::Status CheckUsage(const Session& session, const PredictOptions& options, const v1::JobSpec& from_file) {
  if (options.output.empty()) {
    return absl::OkStatus();
  }
  if (from_file.predict().format() == PredictSpec::NPZ) {
    return absl::InvalidArgumentError(
        "predictions in the format NPZ are several files, so OUTPUT can't be given; leave OUTPUT out, and list the "
        "files later: " +
        session.Command("artifact list --job ID"));
  }
  if (options.output == "-") {
    return CheckContentToStdout(session);
  }
  AMPD_RETURN_IF_ERROR(CheckInputsAreKept({options.file}, options.output));
  return CheckOutputFile(options.output, options.replace);
}

int Predict(Session* session, const PredictOptions& options) {
  const bool has_others = !options.output.empty() || options.replace || !options.request_id.empty();
  OrExitCode<SubmittedFile> read = ReadSubmittedFile(
      session,
      {.path = options.file,
       .overrides = options.overrides,
       .name = options.name,
       .command = has_others ? "" : session->Command("job predict --checkpoint " + ShellWord(options.checkpoint)),
       .has_weights = true});
  if (const int* const failed = std::get_if<int>(&read); failed != nullptr) {
    return *failed;
  }
  auto& submitted = std::get<SubmittedFile>(read);
  if (const auto checkpoint = ParseJobCheckpoint("--checkpoint", options.checkpoint); !checkpoint.ok()) {
    return session->Fail(checkpoint.status());
  }
  if (const std::optional<int> failed = FailWithModel(submitted); failed.has_value()) {
    return *failed;
  }
  if (const absl::Status usage = CheckUsage(*session, options, submitted.file.spec); !usage.ok()) {
    return session->Fail(usage);
  }
  Cancellation* const interrupt = session->CancelledByInterrupt();
  const JobClient::Retry retry = RetryOf(session, kDefaultRetry);
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  const auto spec = MakeSpec(*session, *client, options, submitted.file.spec);
  if (!spec.ok()) {
    return session->Fail(spec.status());
  }
  v1::CreateJobRequest request;
  *request.mutable_spec() = *spec;
  request.set_request_id(RequestIdOf(options.request_id));
  const auto job = (*client)->CreateJob(request, retry);
  if (!job.ok()) {
    return FailRefused(session, job.status(), submitted);
  }
  if (options.output == "-") {
    session->Note(absl::StrCat("submitted ", Printable(job->id()), "; waiting for its predictions"));
  } else {
    ReportAccepted(session, *job);
  }
  WarnIfNoWorkerFits(*session, *client, *job);
  return options.output.empty() ? kExitOk : FollowAndWrite(session, *client, job->id(), options, interrupt);
}

}  // namespace

Command PredictJobCommand() {
  const auto options = std::make_shared<PredictOptions>();
  Argument data = JobFilePath(&options->file, true);
  data.help =
      "YAML file without a model. Under data.predict it names the input files, which must be on the worker. Its "
      "other fields replace those of the trained job. For standard input, give -";
  Argument overrides = SpecOverrides(&options->overrides);
  overrides.help = "Override a field of the file, for example predict.format=NPZ; repeatable";
  return {
      .name = "predict",
      .help = "Submit a job that predicts with a trained job's weights",
      .examples =
          "  echo 'data: {predict: {npz: {file: data/new.npz}}}' > data.yaml\n"
          "  ampctl job predict --checkpoint JOB@best -f data.yaml predictions.jsonl\n"
          "  ampctl job predict --checkpoint JOB -f data.yaml - | jq .\n"
          "  ampctl job predict --checkpoint JOB -f data.yaml --set predict.format=NPZ",
      .formats = AllFormatsBut({OutputFormat::kWide}),
      .arguments = {{.name = "--checkpoint",
                     .value = &options->checkpoint,
                     .text = "JOB[@STEP|@best|@newest]",
                     .help = "Checkpoint whose weights to use: JOB or JOB@newest (its newest), JOB@400 (step 400) "
                             "or JOB@best (lowest evaluation loss). The job must have ended",
                     .required = true},
                    data,
                    overrides,
                    {.name = "--name",
                     .value = &options->name,
                     .text = "NAME",
                     .help = "Name of the job (default: the trained job's name and \"-predict\")"},
                    RequestId(&options->request_id),
                    {.name = "file",
                     .value = &options->output,
                     .text = "[OUTPUT]",
                     .help =
                         "File for the predictions, as JSON lines; - for stdout. If it is given, ampctl waits "
                         "until the job has ended (default: the predictions stay on the server, and ampctl artifact "
                         "download gets them). Not with predict.format=NPZ",
                     .is_path = true},
                    Force(&options->replace)},
      .run = [options](Session* session) { return Predict(session, *options); }};
}

}  // namespace ampd::client
