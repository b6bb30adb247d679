#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/arguments.h"
#include "client/commands/job/create.h"
#include "client/commands/job/dry_run.h"
#include "client/commands/job/job.h"
#include "client/commands/job/local_model.h"
#include "client/commands/job/refusal.h"
#include "client/commands/job/watch.h"
#include "client/commands/job_source.h"
#include "client/jobfile/job_file.h"

namespace ampd::client {
namespace {

struct SubmitOptions {
  std::string file;  // path of the job file; "-": standard input
  std::vector<std::string> overrides;
  std::string name;
  std::string request_id;
  bool dry_run = false;
  bool follow = false;
  absl::Duration retry_for = kDefaultRetry;
};

int Submit(Session* session, const SubmitOptions& options) {
  if (options.dry_run && options.follow) {
    return session->Fail(
        absl::InvalidArgumentError("--follow watches a job, but --dry-run submits none; leave out one of them"));
  }
  if (session->options().output == OutputFormat::kName && (options.follow || options.dry_run)) {
    return session->Fail(absl::InvalidArgumentError(absl::StrCat(
        options.dry_run ? "--dry-run" : "--follow", " does not support the format 'name'; its formats are ",
        FormatNames(AllFormatsBut({OutputFormat::kWide, OutputFormat::kName})))));
  }
  OrExitCode<SubmittedFile> read = ReadSubmittedFile(session, {.path = options.file,
                                                               .overrides = options.overrides,
                                                               .name = options.name,
                                                               .command = session->Command("job submit"),
                                                               .end_of_command = "--dry-run"});
  if (const int* const failed = std::get_if<int>(&read); failed != nullptr) {
    return *failed;
  }
  auto& submitted = std::get<SubmittedFile>(read);
  const JobClient::Retry retry = RetryOf(session, options.retry_for);
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  v1::CreateJobRequest request;
  *request.mutable_spec() = submitted.file.spec;
  const auto model =
      UploadLocalModel(session, options.file, options.dry_run, options.retry_for, request.mutable_spec());
  if (!model.ok()) {
    return FailRefused(session, model.status(), submitted);
  }
  submitted.model = *model;
  request.set_validate_only(options.dry_run);
  request.set_request_id(RequestIdOf(options.request_id));
  const auto job = (*client)->CreateJob(request, retry);
  if (!job.ok()) {
    return FailRefused(session, job.status(), submitted);
  }
  NoteReplaced(*session, submitted);
  NoteOddities(*session, job->spec());
  if (options.dry_run) {
    v1::JobSpec spec = job->spec();
    ShowAsUploaded(*model, &spec);
    PrintDryRun(session, *client, spec, job->pending());
    WarnIfNoWorkerWouldFit(*session, *job);
    session->Note(absl::StrCat(submitted.source, " is valid; nothing was submitted"));
    if (spec.data().has_train() && !spec.data().train().has_synthetic()) {
      session->Note(
          "the data files were not checked, because only the running job reads them; to check one: ampctl data inspect "
          "FILE");
    }
    return kExitOk;
  }
  ReportAccepted(session, *job);
  WarnIfNoWorkerFits(*session, *client, *job);
  return options.follow ? Watch(session, {.id = job->id()}) : kExitOk;
}

}  // namespace

Command SubmitJobCommand() {
  const auto options = std::make_shared<SubmitOptions>();
  return {
      .name = "submit",
      .help = "Submit a job file",
      .examples =
          "  ampctl job submit -f job.yaml --dry-run\n"
          "  ampctl job submit -f job.yaml --set train.epochs=2 --follow\n"
          "  ampctl job submit -f job.yaml --set precision.preset=bf16 --name bf16",
      .formats = AllFormatsBut({OutputFormat::kWide}),
      .arguments = {JobFilePath(&options->file, true),
                    SpecOverrides(&options->overrides),
                    {.name = "--name",
                     .value = &options->name,
                     .text = "NAME",
                     .help = "Name of the job (default: the name in the file)"},
                    {.name = "--dry-run",
                     .value = &options->dry_run,
                     .help = "Only check the job, and show all its fields, its precision policy and the memory that "
                             "it needs"},
                    {.name = "--follow",
                     .value = &options->follow,
                     .help = "After submitting, watch the job until it ends, as ampctl job watch does"},
                    {.name = "--retry-for",
                     .value = &options->retry_for,
                     .text = "DURATION",
                     .help = "If the server cannot be reached, retry for this long (default 10s)"},
                    RequestId(&options->request_id)},
      .run = [options](Session* session) { return Submit(session, *options); }};
}

}  // namespace ampd::client
