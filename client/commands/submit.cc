#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/io/file.h"
#include "client/commands/commands.h"
#include "client/commands/job_source.h"
#include "client/commands/local_model.h"
#include "client/jobfile/job_file.h"
#include "client/render/format.h"
#include "client/render/job_text.h"
#include "client/render/table.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

// The field violations of a status, including fields that the server does not support: an older server names only one.
std::vector<FieldViolation> ViolationsIn(const absl::Status& status) {
  const ErrorMetadata metadata = MetadataOf(status);
  const auto field = metadata.find("field");
  std::vector<FieldViolation> violations = ViolationsOf(status);
  if (!violations.empty() || ReasonOf(status) != "UNSUPPORTED_FIELD" || field == metadata.end()) {
    return violations;
  }
  return {{field->second, std::string(absl::StripPrefix(status.message(), field->second + " "))}};
}

// The job file names a local model by its path, so violations must not name the artifact that replaces it.
void NameAsLocal(const LocalModel& model, std::vector<FieldViolation>* violations) {
  for (FieldViolation& violation : *violations) {
    if (!model.sha256.empty() && violation.field == "model.exported.artifact") {
      violation.field = "model.exported.path";
    }
  }
}

// Prints the effect of the precision policy on a kind of device, or only the warnings about it.
void PrintPolicyOn(JobClient* client, const v1::JobSpec& spec, bool cpu, bool warnings_only) {
  const auto table = client->ResolvePolicy(PolicyRequestOf(spec, cpu ? "cpu" : "gpu"));
  if (!table.ok() || (warnings_only && table->warnings().empty())) {
    return;
  }
  std::printf("# On a %s:\n", cpu ? kExampleCpu : kExampleGpu);
  PrintLines(warnings_only ? "" : table->text(), "# ");
  for (const std::string& warning : table->warnings()) {
    PrintLines("warning: " + warning, "# ");
  }
}

// Follows the spec's YAML as comments. Prints nothing if the server can't resolve policies.
void PrintPolicyAsComment(JobClient* client, const v1::JobSpec& spec) {
  const v1::ResourceSpec::Kind kind = spec.resources().kind();
  PrintPolicyOn(client, spec, /*cpu=*/kind == v1::ResourceSpec::CPU, /*warnings_only=*/false);
  if (kind != v1::ResourceSpec::CPU && kind != v1::ResourceSpec::GPU) {
    PrintPolicyOn(client, spec, /*cpu=*/true, /*warnings_only=*/true);
  }
}

// "4096 on w1/cpu (8.0 GiB)" for each device that the server names, or only the number if the spec names a memory size.
std::string LargestBatch(const v1::EstimateJobResponse& estimate, const v1::EstimateJobResponse::Candidate& candidate) {
  if (estimate.memory_bytes() > 0) {
    return absl::StrCat(candidate.largest_batch_size());
  }
  std::vector<std::string> fits;
  for (const auto& fit : candidate.fits()) {
    fits.push_back(absl::StrCat(fit.largest_batch_size(), " on ", Printable(fit.worker()), "/", Printable(fit.device()),
                                " (", FormatBytes(fit.memory_bytes()), ")"));
  }
  return fits.empty() ? "-" : absl::StrJoin(fits, ", ");
}

// Why the memory of an exported model is unknown.
std::string WhyUnknown(const v1::JobSpec& spec, const absl::Status& status) {
  if (spec.model().exported().artifact().empty()) {
    return " until a worker reads the model's file";
  }
  return absl::IsNotFound(status) ? " until the model's file is uploaded; ampctl model inspect FILE --batch N tells it"
                                  : absl::StrCat("; ", Printable(std::string(status.message())));
}

// Prints the memory of a step in the same way.
void PrintMemoryAsComment(Session* session, JobClient* client, const v1::JobSpec& spec) {
  const auto estimate = client->EstimateJob(spec);
  if (!estimate.ok()) {
    if (spec.model().has_exported()) {
      std::printf("# Memory of a step: unknown%s\n", WhyUnknown(spec, estimate.status()).c_str());
    }
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& candidate : estimate->candidates()) {
    rows.push_back({absl::StrCat(Printable(candidate.precision()), candidate.emulated() ? " (emulated)" : ""),
                    Printable(candidate.device_kind()), FormatBytes(candidate.total_bytes()),
                    FormatBytes(candidate.weight_bytes() + candidate.working_copy_bytes()),
                    FormatBytes(candidate.optimizer_bytes()), FormatBytes(candidate.gradient_bytes()),
                    FormatBytes(candidate.activation_bytes()),
                    FormatBytes(candidate.workspace_bytes() + candidate.input_bytes()),
                    LargestBatch(*estimate, candidate)});
  }
  if (estimate->memory_bytes() == 0 && std::all_of(estimate->candidates().begin(), estimate->candidates().end(),
                                                   [](const auto& candidate) { return candidate.fits().empty(); })) {
    session->Note("no worker that serves now could run it; see: ampctl worker list -o wide");
  }
  std::printf("# Memory of a step at its peak; the largest batch for %s:\n",
              estimate->memory_bytes() > 0 ? FormatBytes(estimate->memory_bytes()).c_str()
                                           : "the smallest and the largest device that could run it");
  PrintLines(RenderTable({"PRECISION", "DEVICE", "TOTAL", "WEIGHTS", "MOMENTS", "GRADIENTS", "ACTIVATIONS", "OTHER",
                          "LARGEST BATCH"},
                         rows, /*headings=*/true),
             "# ");
}

// Prints by -o {"spec", "policies": [{"device", "table"}], "memory"}, for each kind of device that the job may run on.
// Omits what the server does not know.
void PrintStructuredDryRun(Session* session, JobClient* client, const v1::JobSpec& spec) {
  const v1::ResourceSpec::Kind kind = spec.resources().kind();
  std::vector<std::string> policies;
  for (const bool cpu : {true, false}) {
    if (kind == (cpu ? v1::ResourceSpec::GPU : v1::ResourceSpec::CPU)) {
      continue;
    }
    if (const auto table = client->ResolvePolicy(PolicyRequestOf(spec, cpu ? "cpu" : "gpu")); table.ok()) {
      policies.push_back(
          absl::StrCat(R"({"device":")", cpu ? kExampleCpu : kExampleGpu, R"(","table":)", ToJson(*table, false), "}"));
    }
  }
  JsonMembers members = {{"spec", ToJson(spec, false)}};
  if (!policies.empty()) {
    members.emplace_back("policies", absl::StrCat("[", absl::StrJoin(policies, ","), "]"));
  }
  if (const auto estimate = client->EstimateJob(spec); estimate.ok()) {
    members.emplace_back("memory", ToJson(*estimate, false));
  }
  PrintStructured(*session, members);
}

void PrintDryRun(Session* session, JobClient* client, const v1::JobSpec& spec) {
  if (session->options().output != OutputFormat::kTable) {
    return PrintStructuredDryRun(session, client, spec);
  }
  std::fputs(ToYaml(spec).c_str(), stdout);
  PrintPolicyAsComment(client, spec);
  PrintMemoryAsComment(session, client, spec);
}

// Ctrl-C cancels the retries. REQUIRES: called before Session::Client().
JobClient::Retry RetryOf(Session* session, absl::Duration retry_for) {
  return {retry_for, session->CancelledByInterrupt(), [session, retry_for](const absl::Status&) {
            session->Note(absl::StrCat("the server does not answer; trying for ", absl::FormatDuration(retry_for)));
          }};
}

void ReportAccepted(Session* session, const v1::Job& job) {
  const GlobalOptions& options = session->options();
  const bool ids_only = options.quiet || options.output == OutputFormat::kName;
  if (ids_only || !PrintStructured(*session, job)) {
    std::printf("%s\n", job.id().c_str());
  }
  std::fflush(stdout);
  session->Note(absl::StrCat("submitted ", Printable(job.spec().name()), "\n  watch:   ampctl job watch ", job.id(),
                             "\n  logs:    ampctl job logs -f ", job.id(), "\n  cancel:  ampctl job cancel ",
                             job.id()));
  const std::string kept = RenderRetention(job, {absl::Now(), absl::LocalTimeZone()});
  if (!kept.empty()) {
    session->Note("  kept:    " + kept);
  }
}

}  // namespace

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
    session->Note(absl::StrCat(source, " is right; nothing was submitted"));
    return kExitOk;
  }
  ReportAccepted(session, *job);
  return options.follow ? Watch(session, {job->id(), true, absl::Seconds(5)}) : kExitOk;
}

int CloneJob(Session* session, const std::string& id, const std::string& name, bool retry, absl::Duration retry_for) {
  const JobClient::Retry repeat = RetryOf(session, retry_for);
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  v1::CloneJobRequest request;
  request.set_id(id);
  request.set_name(name);
  request.set_request_id(NewRequestId());
  request.set_from_last_checkpoint(retry);
  const auto job = (*client)->CloneJob(request, repeat);
  if (!job.ok()) {
    return session->Fail(job.status());
  }
  ReportAccepted(session, *job);
  return kExitOk;
}

}  // namespace ampd::client
