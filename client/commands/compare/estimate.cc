#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "client/commands/compare/compare.h"
#include "client/commands/compare/policies.h"
#include "client/commands/job_source.h"
#include "client/compare/expected_time.h"
#include "client/compare/verdict_text.h"
#include "client/render/format.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"
#include "precision/preset.h"

namespace ampd::client {
namespace {

constexpr int kMostFinishedJobs = 500;

using Candidate = v1::EstimateJobResponse::Candidate;

// The server's estimate for the job under one policy, or the error if there is none.
struct PolicyEstimate {
  std::string policy;
  v1::JobSpec spec;  // With every default filled in.
  absl::StatusOr<v1::EstimateJobResponse> answer;
  bool is_refused = false;  // Whether the server would reject the job.
};

PolicyEstimate EstimateUnder(JobClient* client, const v1::JobSpec& spec, const std::string& policy,
                             const JobClient::Retry& retry) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = UnderPolicy(spec, policy);
  request.set_validate_only(true);
  request.set_request_id(NewRequestId());
  const auto checked = client->CreateJob(request, retry);
  if (!checked.ok()) {
    return {policy, request.spec(), checked.status(), /*is_refused=*/true};
  }
  return {policy, checked->spec(), client->EstimateJob(checked->spec())};
}

std::string BatchText(int64_t batch_size) { return batch_size == 0 ? "none" : absl::StrCat(batch_size); }

// Two texts: whether the job fits, such as "yes", and the largest batch that fits, such as "512 on w1/cpu (8.0 GiB)".
struct FitText {
  std::string fits;
  std::string largest_batch;
};

FitText FitOf(const Candidate& candidate, const v1::EstimateJobResponse& answer, int batch_size) {
  if (answer.memory_bytes() > 0) {
    return {candidate.largest_batch_size() >= batch_size ? "yes" : "no", BatchText(candidate.largest_batch_size())};
  }
  if (candidate.fits().empty()) {
    return {"no device", "-"};
  }
  bool any = false;
  bool all = true;
  std::vector<std::string> texts;
  for (const auto& fit : candidate.fits()) {
    any = any || fit.largest_batch_size() >= batch_size;
    all = all && fit.largest_batch_size() >= batch_size;
    texts.push_back(absl::StrCat(BatchText(fit.largest_batch_size()), " on ", Printable(fit.worker()), "/",
                                 Printable(fit.device()), " (", FormatBytes(fit.memory_bytes()), ")"));
  }
  return {all ? "yes" : any ? "on some" : "no", absl::StrJoin(texts, ", ")};
}

std::string WhyNot(const PolicyEstimate& estimate) {
  const std::vector<FieldViolation> violations = ViolationsOf(estimate.answer.status());
  const std::string why = violations.empty()
                              ? std::string(estimate.answer.status().message())
                              : absl::StrCat(violations.front().field, ": ", violations.front().description);
  return absl::StrCat(estimate.is_refused ? "refused: " : "no estimate: ", Printable(why));
}

std::vector<std::vector<std::string>> RowsOf(const PolicyEstimate& estimate, const std::vector<v1::Job>& finished) {
  if (!estimate.answer.ok()) {
    return {{Printable(estimate.policy), "-", "-", estimate.is_refused ? "refused" : "no estimate", "-", "-"}};
  }
  std::vector<std::vector<std::string>> rows;
  for (const Candidate& candidate : estimate.answer->candidates()) {
    const FitText fit = FitOf(candidate, *estimate.answer, estimate.spec.data().batch_size());
    const auto time = ExpectedTimeOf(estimate.spec, candidate.precision(), candidate.device_kind(), finished);
    rows.push_back({absl::StrCat(Printable(candidate.precision()), candidate.emulated() ? " (emulated)" : ""),
                    Printable(candidate.device_kind()), FormatBytes(candidate.total_bytes()), fit.fits,
                    fit.largest_batch,
                    time.has_value() ? absl::StrCat(SecondsText(time->seconds), ", as ", Printable(time->job_id),
                                                    " on ", Printable(time->device))
                                     : "no past run"});
  }
  return rows;
}

// Returns {"policy", "memory", "expectedTimes": [{"precision", "deviceKind", "time", "jobId"}]}, or {"policy", "error"}
// if there is no estimate. REQUIRES: `estimate` outlives the result.
PlainFields FieldsOf(const PolicyEstimate& estimate, const std::vector<v1::Job>& finished) {
  if (!estimate.answer.ok()) {
    return {{"policy", estimate.policy}, {"error", WhyNot(estimate)}};
  }
  std::vector<PlainFields> times;
  for (const Candidate& candidate : estimate.answer->candidates()) {
    if (const auto time = ExpectedTimeOf(estimate.spec, candidate.precision(), candidate.device_kind(), finished);
        time.has_value()) {
      times.push_back({{"precision", candidate.precision()},
                       {"deviceKind", candidate.device_kind()},
                       {"time", absl::StrCat(time->seconds, "s")},  // A duration in protobuf's JSON mapping.
                       {"jobId", time->job_id}});
    }
  }
  return {{"policy", estimate.policy},
          {"memory", static_cast<const google::protobuf::Message*>(&*estimate.answer)},
          {"expectedTimes", times}};
}

void Show(const Session& session, const std::vector<PolicyEstimate>& estimates, const std::vector<v1::Job>& finished) {
  std::vector<PlainFields> items;
  std::vector<std::vector<std::string>> rows;
  for (const PolicyEstimate& estimate : estimates) {
    items.push_back(FieldsOf(estimate, finished));
    const auto of_policy = RowsOf(estimate, finished);
    rows.insert(rows.end(), of_policy.begin(), of_policy.end());
  }
  if (!PrintStructured(session, items)) {
    PrintTable(session, {"PRECISION", "DEVICE", "MEMORY", "FITS", "LARGEST BATCH", "EXPECTED TIME"}, rows);
    for (const PolicyEstimate& estimate : estimates) {
      if (!estimate.answer.ok()) {
        WriteProse(absl::StrCat(Printable(estimate.policy), ": ", WhyNot(estimate), "\n"));
      }
    }
  }
}

// Some policies choose the preset by the device. For each of these, prints the preset that it chooses on each worker's
// device.
void NoteChoices(const Session& session, JobClient* client, const std::vector<PolicyEstimate>& estimates) {
  for (const PolicyEstimate& estimate : estimates) {
    const bool chooses = !estimate.is_refused && (estimate.spec.precision().preset() == precision::kAuto ||
                                                  !estimate.spec.precision().prefer().empty());
    for (const WorkerDevice& device : chooses ? DevicesFor(client, estimate.spec) : std::vector<WorkerDevice>()) {
      v1::ResolvePolicyRequest request = PolicyRequestOf(estimate.spec, "cpu");
      *request.mutable_device() = device.device;
      if (const auto table = client->ResolvePolicy(request); table.ok()) {
        session.Note(absl::StrCat(Printable(estimate.policy), " chooses ", Printable(table->policy().preset()), " on ",
                                  device.name));
      }
    }
  }
}

int Estimate(Session* session, const PolicyOptions& options) {
  OrExitCode<PolicyJob> read = ReadPolicyJob(session, options, session->Command("estimate"), /*dry_run=*/true);
  if (const int* exit_code = std::get_if<int>(&read)) {
    return *exit_code;
  }
  const PolicyJob& job = std::get<PolicyJob>(read);
  JobClient* const client = *session->Client();
  JobClient::Retry once = job.retry;  // Do not retry: the user can repeat the command.
  once.retry_for = absl::ZeroDuration();
  std::vector<PolicyEstimate> estimates;
  for (const std::string& policy : job.policies) {
    estimates.push_back(EstimateUnder(client, job.spec, policy, once));
    if (IsUnanswered(estimates.back().answer.status())) {
      return session->Fail(estimates.back().answer.status());
    }
  }
  if (std::all_of(estimates.begin(), estimates.end(), [](const PolicyEstimate& one) { return one.is_refused; })) {
    return FailRefused(session, estimates.front().answer.status(), job.submitted);
  }
  NoteReplaced(*session, job.submitted);
  const auto finished = client->ListJobs("state=SUCCEEDED", kMostFinishedJobs);
  Show(*session, estimates, finished.ok() ? finished->jobs : std::vector<v1::Job>());
  if (session->for_people()) {
    NoteChoices(*session, client, estimates);
  }
  return kExitOk;
}

}  // namespace

Command EstimateCommand() {
  const auto options = std::make_shared<PolicyOptions>();
  return {
      .name = "estimate",
      .help =
          "For each policy and kind of device, show the memory that a step of the job needs, the largest batch, and "
          "the expected time of the whole job. Submits nothing",
      .examples =
          "  ampctl estimate -f job.yaml\n"
          "  ampctl estimate -f job.yaml --policies fp32,bf16,fp8 --set data.batch_size=512",
      .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
      .arguments = PolicyArguments(options.get(), /*is_file_required=*/true),
      .run = [options](Session* session) { return Estimate(session, *options); }};
}

}  // namespace ampd::client
