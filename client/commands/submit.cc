#include <cstdio>
#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "client/commands/commands.h"
#include "client/commands/output.h"
#include "client/job_file.h"

namespace ampd::client {
namespace {

// One byte more than a job file may have, so that the reader of it sees that it is too large.
absl::StatusOr<std::string> ReadSource(const std::string& path) {
  constexpr int64_t kMostRead = int64_t{64} << 20;
  if (path != "-") {
    auto text = ReadFile(path, kMostRead);
    if (!text.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", text.status().message()));
    }
    return text;
  }
  std::string text;
  std::istreambuf_iterator<char> next(std::cin);
  while (next != std::istreambuf_iterator<char>() && text.size() <= kMaxYamlBytes) {
    text.push_back(*next++);
  }
  return text;
}

int FailWithProblems(const std::vector<Problem>& problems, const std::string& source) {
  std::fputs(ProblemsText(problems, source).c_str(), stderr);
  return kExitUsage;
}

void ReportAccepted(Session* session, const v1::Job& job) {
  const GlobalOptions& options = session->options();
  const bool ids_only = options.quiet || options.output == OutputFormat::kName;
  if (ids_only || options.output == OutputFormat::kTable || options.output == OutputFormat::kWide) {
    std::printf("%s\n", job.id().c_str());
    std::fflush(stdout);
  } else {
    PrintStructured(*session, job);
  }
  session->Note(absl::StrCat("submitted ", Printable(job.spec().name()), "\n  watch:   ampctl job watch ", job.id(),
                             "\n  logs:    ampctl job logs -f ", job.id(), "\n  cancel:  ampctl job cancel ",
                             job.id()));
}

}  // namespace

int Submit(Session* session, const SubmitOptions& options) {
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
  if (options.follow) {
    session->CancelledByInterrupt();
  }
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  v1::CreateJobRequest request;
  *request.mutable_spec() = file.spec;
  request.set_validate_only(options.dry_run);
  request.set_request_id(NewRequestId());
  const auto job = (*client)->CreateJob(request, options.retry_for);
  if (!job.ok()) {
    const auto violations = ViolationsOf(job.status());
    return violations.empty() ? session->Fail(job.status())
                              : FailWithProblems(PlaceViolations(violations, file, source), options.file);
  }
  if (options.dry_run) {
    if (!PrintStructured(*session, job->spec())) {
      std::fputs(ToYaml(job->spec()).c_str(), stdout);
    }
    session->Note(absl::StrCat(source, " is right; nothing was submitted"));
    return kExitOk;
  }
  ReportAccepted(session, *job);
  return options.follow ? Watch(session, {job->id(), true, absl::Seconds(5)}) : kExitOk;
}

int CloneJob(Session* session, const std::string& id, const std::string& name, bool retry, absl::Duration retry_for) {
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  v1::CloneJobRequest request;
  request.set_id(id);
  request.set_name(name);
  request.set_request_id(NewRequestId());
  request.set_from_last_checkpoint(retry);
  const auto job = (*client)->CloneJob(request, retry_for);
  if (!job.ok()) {
    return session->Fail(job.status());
  }
  ReportAccepted(session, *job);
  return kExitOk;
}

}  // namespace ampd::client
