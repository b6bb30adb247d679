#include "client/commands/compare/submit_policies.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/compare/comparison.h"
#include "client/compare/place.h"
#include "client/compare/run_facts.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

constexpr size_t kMaxNameBytes = 63;

std::string NewComparisonId() { return "c-" + NewRequestId().substr(0, 8); }

// Returns the name of a job to submit: "fashion-bf16", or "fashion-bf16-s3" if there are several seeds per policy.
std::string JobName(const v1::JobSpec& spec, const std::string& policy, int num_repeats) {
  const std::string end = absl::StrCat("-", policy, num_repeats > 1 ? absl::StrCat("-s", spec.train().seed()) : "");
  return spec.name().substr(0, kMaxNameBytes - std::min(kMaxNameBytes, end.size())) + end;
}

// Sets the same worker and kind of device for all jobs. Returns an error if the server does not list its workers.
absl::Status PinToOnePlace(Session* session, JobClient* client, v1::JobSpec* spec) {
  AMPD_ASSIGN_OR_RETURN(const std::vector<v1::Worker> workers, client->ListWorkers());
  const auto place = ChoosePlace(workers, spec->resources());
  if (!place.has_value()) {
    session->Note(
        "no available worker has a device with the resources that the jobs ask for; the jobs wait until one has");
    return absl::OkStatus();
  }
  spec->mutable_resources()->set_worker(place->worker);
  spec->mutable_resources()->set_kind(place->kind);
  session->Note(absl::StrCat("all jobs run on the ", place->kind == v1::ResourceSpec::GPU ? "GPU" : "CPU",
                             " of worker ", Printable(place->worker)));
  return absl::OkStatus();
}

// Prints a warning if the server reports that no device can run the job.
void WarnIfNothingFits(Session* session, JobClient* client, const v1::JobSpec& spec, const std::string& policy) {
  const auto estimate = client->EstimateJob(spec);
  const bool may_fit = !estimate.ok() || estimate->memory_bytes() > 0 ||
                       std::any_of(estimate->candidates().begin(), estimate->candidates().end(),
                                   [](const auto& candidate) { return !candidate.fits().empty(); });
  if (!may_fit) {
    session->Warn(absl::StrCat("warning: no connected worker can run ", policy,
                               "; its jobs wait until one can. To see why: ", session->Command("estimate")));
  }
}

// One job to submit.
struct Planned {
  std::string policy;
  v1::JobSpec spec;
};

std::vector<Planned> Plan(const v1::JobSpec& spec, const std::vector<std::string>& policies, int num_repeats,
                          const std::string& id) {
  std::vector<Planned> plan;
  for (int repeat = 0; repeat < num_repeats; ++repeat) {
    for (const std::string& policy : policies) {
      v1::JobSpec planned = UnderPolicy(spec, policy);
      planned.mutable_train()->set_seed(spec.train().seed() + static_cast<uint64_t>(repeat));
      planned.set_name(JobName(planned, policy, num_repeats));
      (*planned.mutable_labels())[kCompareLabel] = id;
      (*planned.mutable_labels())[kPolicyLabel] = policy;
      plan.push_back({policy, planned});
    }
  }
  return plan;
}

// Refuses to compare the job file's own precision with an equal preset: both would be runs of one policy. `specs` are
// the specs under the policies, as the server completed them.
absl::Status CheckFileIsNoPreset(const std::vector<v1::JobSpec>& specs, const std::vector<std::string>& policies,
                                 const std::string& source) {
  for (size_t i = 0; i < policies.size(); ++i) {
    for (size_t k = 0; k < policies.size(); ++k) {
      if (policies[i] == kFilePolicy && k != i && HaveOnePolicy(specs[i], specs[k])) {
        return absl::InvalidArgumentError(absl::StrCat("--policies: 'file' and '", policies[k],
                                                       "' are one policy, because the precision of ", Printable(source),
                                                       " is that of ", policies[k], "; leave out 'file'"));
      }
    }
  }
  return absl::OkStatus();
}

// Asks the server to validate the first job of each policy. Returns the exit code if the server rejects one, or if two
// of the policies are the same.
std::optional<int> CheckAll(Session* session, JobClient* client, const std::vector<Planned>& plan,
                            const PolicyJob& job) {
  std::vector<v1::JobSpec> specs;
  for (size_t i = 0; i < job.policies.size(); ++i) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = plan[i].spec;
    request.set_validate_only(true);
    request.set_request_id(NewRequestId());
    const auto checked = client->CreateJob(request, job.retry);
    if (IsUnanswered(checked.status())) {
      return session->Fail(checked.status());
    }
    if (!checked.ok()) {
      session->Warn(
          absl::StrCat("the server refuses the job under the policy ", plan[i].policy, ", so nothing was submitted"));
      return FailRefused(session, checked.status(), job.submitted);
    }
    WarnIfNothingFits(session, client, checked->spec(), plan[i].policy);
    specs.push_back(checked->spec());
  }
  const absl::Status differ = CheckFileIsNoPreset(specs, job.policies, job.submitted.source);
  return differ.ok() ? std::nullopt : std::optional(session->Fail(differ));
}

OrExitCode<ComparedJobs> SubmitAll(Session* session, JobClient* client, const std::vector<Planned>& plan,
                                   const std::string& id, const PolicyJob& job, const std::string& verdict_options) {
  ComparedJobs compared = {.id = id};
  for (const Planned& planned : plan) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = planned.spec;
    request.set_request_id(NewRequestId());
    const auto created = client->CreateJob(request, job.retry);
    if (!created.ok() && !compared.jobs.empty()) {
      session->Warn(absl::StrCat(compared.jobs.size(), " of ", plan.size(), " jobs were submitted; to cancel them: ",
                                 session->Command("job list -q --filter labels."), kCompareLabel, "=", id,
                                 " | xargs -r ", session->Command("job cancel")));
    }
    if (!created.ok()) {
      return FailRefused(session, created.status(), job.submitted);
    }
    compared.jobs.push_back(*created);
  }
  NoteReplaced(*session, job.submitted);
  session->Note(absl::StrCat("submitted ", plan.size(), " jobs as comparison ", id,
                             "\n  jobs:     ", session->Command("job list --filter labels."), kCompareLabel, "=", id,
                             "\n  verdict:  ", session->Command("compare --label "), id, verdict_options));
  return compared;
}

}  // namespace

OrExitCode<ComparedJobs> SubmitPolicies(Session* session, const SubmitPoliciesOptions& options) {
  OrExitCode<PolicyJob> read = ReadPolicyJob(session, options.policies, /*command=*/"", /*dry_run=*/false);
  if (const int* exit_code = std::get_if<int>(&read)) {
    return *exit_code;
  }
  PolicyJob& job = std::get<PolicyJob>(read);
  if (job.spec.has_predict()) {
    return session->Fail(absl::InvalidArgumentError(Printable(job.submitted.source) + kPredictsOnly));
  }
  JobClient* const client = *session->Client();
  if (HasOwnPolicy(job.spec) &&
      std::find(job.policies.begin(), job.policies.end(), kFilePolicy) == job.policies.end()) {
    session->Note(absl::StrCat("each policy replaces all precision settings of ", Printable(job.submitted.source),
                               "; to compare these settings too, add 'file' to --policies"));
  }
  if (const absl::Status pinned = PinToOnePlace(session, client, &job.spec); !pinned.ok()) {
    return session->Fail(pinned);
  }
  const std::string id = NewComparisonId();
  const std::vector<Planned> plan = Plan(job.spec, job.policies, options.num_repeats, id);
  if (const auto failed = CheckAll(session, client, plan, job); failed.has_value()) {
    return *failed;
  }
  return SubmitAll(session, client, plan, id, job, options.verdict_options);
}

}  // namespace ampd::client
