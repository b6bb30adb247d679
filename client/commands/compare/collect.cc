#include "client/commands/compare/collect.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/commands/checks.h"
#include "client/render/job_text.h"

namespace ampd::client {
namespace {

constexpr int kPointsPerJob = 2000;

// Returns the vendor's name of the device on which the job ran; "" if the server no longer knows the job's worker.
std::string DeviceName(const std::vector<v1::Worker>& workers, const v1::Job& job) {
  if (job.attempts().empty() || job.attempts().rbegin()->devices().empty()) {
    return "";
  }
  const v1::Attempt& attempt = *job.attempts().rbegin();
  for (const v1::Worker& worker : workers) {
    for (const v1::Device& device : worker.devices()) {
      if (worker.name() == attempt.worker() && device.id() == attempt.devices(0)) {
        return device.name();
      }
    }
  }
  return "";
}

absl::StatusOr<RunRecord> ReadRecord(JobClient* client, const v1::Job& job, const std::vector<v1::Worker>& workers) {
  RunRecord record = {.job = job, .device_name = DeviceName(workers, job)};
  AMPD_ASSIGN_OR_RETURN(record.points, client->ListMetricPoints(job.id(), kPointsPerJob));
  AMPD_ASSIGN_OR_RETURN(record.events, client->ListEvents(job.id()));
  return record;
}

// Returns the largest batch size that fits on the device on which the job ran. Unset if the server can't estimate it.
std::optional<int64_t> LargestBatch(JobClient* client, const v1::Job& job) {
  if (job.attempts().empty() || job.attempts().rbegin()->devices().empty()) {
    return std::nullopt;
  }
  const v1::Attempt& attempt = *job.attempts().rbegin();
  const auto estimate = client->EstimateJob(job.spec());
  if (!estimate.ok()) {
    return std::nullopt;
  }
  const std::string kind = absl::StartsWith(attempt.devices(0), "gpu") ? "GPU" : "CPU";
  for (const auto& candidate : estimate->candidates()) {
    if (candidate.precision() != attempt.precision() || candidate.device_kind() != kind) {
      continue;
    }
    if (candidate.largest_batch_size() > 0) {
      return candidate.largest_batch_size();
    }
    const auto fit = std::find_if(candidate.fits().begin(), candidate.fits().end(), [&attempt](const auto& one) {
      return one.worker() == attempt.worker() && one.device() == attempt.devices(0);
    });
    return fit == candidate.fits().end() ? std::nullopt : std::optional(fit->largest_batch_size());
  }
  return std::nullopt;
}

// Derives a name for what was trained from the names of the jobs. `ampctl compare` appends the policy to each job's
// name; for such jobs, returns the name without the policy. For other jobs, splits the names at their dashes and
// returns the first parts that all names share: "mlp-big" for "mlp-big-1" and "mlp-big-2". If they share none, returns
// the first job's name.
std::string CommonName(const std::vector<v1::Job>& jobs) {
  const v1::JobSpec& first = jobs.front().spec();
  if (const auto policy = first.labels().find(kPolicyLabel); policy != first.labels().end()) {
    return first.name().substr(0, first.name().rfind("-" + policy->second));
  }
  std::vector<std::string> common = absl::StrSplit(first.name(), '-');
  for (const v1::Job& job : jobs) {
    const std::vector<std::string> parts = absl::StrSplit(job.spec().name(), '-');
    const auto end = std::mismatch(common.begin(), common.end(), parts.begin(), parts.end()).first;
    common.erase(end, common.end());
  }
  return common.empty() ? first.name() : absl::StrJoin(common, "-");
}

absl::Status CheckBaseline(const std::string& baseline, const std::vector<PolicyRuns>& policies) {
  std::vector<std::string> names;
  for (const PolicyRuns& policy : policies) {
    names.push_back(policy.name);
  }
  return baseline.empty() || PlaceOfPolicy(policies, baseline).has_value()
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("--baseline: no policy is named '", baseline,
                                                       "'; the policies are ", absl::StrJoin(names, ", "),
                                                       MeantWord(baseline, names)));
}

// Whether the name of the job's policy may still change.
bool MayChangePolicy(const v1::Job& job) {
  const v1::PrecisionPolicy& policy = job.spec().precision();
  const bool is_open = job.attempts().empty() && (policy.preset() == "auto" || policy.prefer_size() > 0);
  const bool may_raise = job.spec().on_divergence() == v1::JobSpec::ROLL_BACK_AND_RAISE_PRECISION ||
                         policy.loss_scale().dynamic().at_floor() == v1::DynamicLossScale::FALL_BACK;
  return !IsTerminal(job.state()) && (is_open || may_raise);
}

}  // namespace

absl::Status CheckBaselineOfJobs(const std::vector<v1::Job>& jobs, const std::string& baseline) {
  if (baseline.empty() || std::any_of(jobs.begin(), jobs.end(), MayChangePolicy)) {
    return absl::OkStatus();
  }
  std::vector<RunFacts> runs;
  std::vector<v1::JobSpec> specs;
  for (const v1::Job& job : jobs) {
    runs.emplace_back().precision = job.attempts().empty() ? "" : job.attempts().rbegin()->precision();
    specs.push_back(job.spec());
  }
  return CheckBaseline(baseline, GroupByPolicy(runs, specs));
}

absl::StatusOr<Comparison> Collect(JobClient* client, const ComparedJobs& compared, const std::string& baseline,
                                   const Rates& rates) {
  const auto workers = client->ListWorkers();
  std::vector<RunFacts> runs;
  std::vector<v1::JobSpec> specs;
  for (const v1::Job& job : compared.jobs) {
    AMPD_ASSIGN_OR_RETURN(const RunRecord record,
                          ReadRecord(client, job, workers.ok() ? *workers : std::vector<v1::Worker>()));
    runs.push_back(FactsOf(record));
    specs.push_back(job.spec());
  }
  Comparison comparison = {.id = compared.id, .model = CommonName(compared.jobs), .rates = rates};
  comparison.policies = GroupByPolicy(runs, specs);
  for (PolicyRuns& policy : comparison.policies) {
    const auto job = std::find_if(compared.jobs.begin(), compared.jobs.end(),
                                  [&policy](const v1::Job& one) { return one.id() == policy.runs.front().job_id; });
    policy.largest_batch = LargestBatch(client, *job);
  }
  AMPD_RETURN_IF_ERROR(CheckBaseline(baseline, comparison.policies));
  comparison.verdict = Judge(comparison.policies, baseline, PartsThatDiffer(specs));
  return comparison;
}

}  // namespace ampd::client
