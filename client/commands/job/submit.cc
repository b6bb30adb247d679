#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "client/commands/job/create.h"
#include "client/commands/job/dry_run.h"
#include "client/commands/job/job.h"
#include "client/commands/job/local_model.h"
#include "client/commands/job/watch.h"
#include "client/commands/job_source.h"
#include "client/commands/suggestions.h"
#include "client/jobfile/job_file.h"

namespace ampd::client {
namespace {

struct SubmitOptions {
  std::string file;  // path of the job file; "-": standard input
  std::vector<std::string> overrides;
  std::string name;
  bool dry_run = false;
  bool follow = false;
  absl::Duration retry_for = kDefaultRetry;
};

// Returns the field violations of a status. An older server reports an unsupported field without violations, by the
// metadata of the error; it names only one.
std::vector<FieldViolation> ViolationsIn(const absl::Status& status) {
  const ErrorMetadata metadata = MetadataOf(status);
  const auto field = metadata.find("field");
  std::vector<FieldViolation> violations = ViolationsOf(status);
  if (!violations.empty() || ReasonOf(status) != "UNSUPPORTED_FIELD" || field == metadata.end()) {
    return violations;
  }
  return {{field->second, std::string(absl::StripPrefix(status.message(), field->second + " "))}};
}

// Changes violations of the field `artifact`, which replaced the path of a local model: they name `path`, which the
// job file has.
void NameAsLocal(const LocalModel& model, std::vector<FieldViolation>* violations) {
  for (FieldViolation& violation : *violations) {
    if (!model.sha256.empty() && violation.field == "model.exported.artifact") {
      violation.field = "model.exported.path";
    }
  }
}

int Submit(Session* session, const SubmitOptions& options) {
  if (session->options().output == OutputFormat::kName && (options.follow || options.dry_run)) {
    return session->Fail(absl::InvalidArgumentError(
        absl::StrCat(options.dry_run ? "--dry-run" : "--follow", " has no format 'name'; it has ",
                     FormatNames(AllFormatsBut({OutputFormat::kWide, OutputFormat::kName})))));
  }
  const auto text = ReadSource(options.file);
  if (!text.ok()) {
    return session->Fail(text.status());
  }
  const std::string source = options.file == "-" ? "stdin" : options.file;
  std::vector<std::string> overrides = options.overrides;
  if (!options.name.empty()) {
    overrides.push_back("name=" + options.name);
  }
  const JobFile file = ReadJobFile(*text, source, overrides);
  if (!file.problems.empty()) {
    return FailWithProblems(file.problems, options.file);
  }
  const JobClient::Retry retry = RetryOf(session, options.retry_for);
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  v1::CreateJobRequest request;
  *request.mutable_spec() = file.spec;
  const auto model =
      UploadLocalModel(session, options.file, options.dry_run, options.retry_for, request.mutable_spec());
  if (!model.ok()) {
    return session->Fail(model.status());
  }
  request.set_validate_only(options.dry_run);
  request.set_request_id(NewRequestId());
  const auto job = (*client)->CreateJob(request, retry);
  if (!job.ok()) {
    std::vector<FieldViolation> violations = ViolationsIn(job.status());
    NameAsLocal(*model, &violations);
    return violations.empty() ? session->Fail(job.status())
                              : FailWithProblems(PlaceViolations(violations, file, source), options.file);
  }
  if (options.dry_run) {
    v1::JobSpec spec = job->spec();
    ShowAsUploaded(*model, &spec);
    PrintDryRun(session, *client, spec);
    session->Note(absl::StrCat(source, " is valid; nothing was submitted"));
    return kExitOk;
  }
  ReportAccepted(session, *job);
  return options.follow ? Watch(session, {.id = job->id()}) : kExitOk;
}

std::vector<std::string> SuggestSpecPaths(const Typed& typed) {
  return SpecPathsFor(*v1::JobSpec::descriptor(), typed.text);
}

}  // namespace

Command SubmitJobCommand() {
  const auto options = std::make_shared<SubmitOptions>();
  return {.name = "submit",
          .help = "Submit a job file",
          .examples =
              "  ampctl job submit -f job.yaml --dry-run\n"
              "  ampctl job submit -f job.yaml --set precision.preset=fp16 --set train.epochs=2 --follow\n"
              "  sed s/fp32/bf16/ job.yaml | ampctl job submit -f - --name bf16",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .arguments =
              {{.name = "-f,--file",
                .value = &options->file,
                .text = "FILE",
                .help = "Job file (- for standard input)",
                .required = true,
                .suggest = SuggestFiles},
               {.name = "--set",
                .value = &options->overrides,
                .text = "PATH=VALUE",
                .help = "Override a field of the file, for example train.epochs=2; repeatable",
                .suggest = SuggestSpecPaths},
               {.name = "--name", .value = &options->name, .text = "NAME", .help = "Override the name in the file"},
               {.name = "--dry-run",
                .value = &options->dry_run,
                .help = "Let the server check the job, and show its policy and memory; submit nothing"},
               {.name = "--follow", .value = &options->follow, .help = "Watch the job until it ends"},
               {.name = "--retry-for",
                .value = &options->retry_for,
                .text = "DURATION",
                .help = "How long to retry an unreachable server (default 10s)"}},
          .run = [options](Session* session) { return Submit(session, *options); }};
}

}  // namespace ampd::client
