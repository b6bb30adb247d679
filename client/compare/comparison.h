#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ampd/v1/job_spec.pb.h"
#include "client/compare/run_facts.h"
#include "client/compare/statistics.h"

namespace ampd::client {

// The cost of energy and of the use of a device. Unset: the user did not give it.
struct Rates {
  std::optional<double> price_per_device_hour;
  std::optional<double> price_per_kwh;
  std::optional<double> carbon_grams_per_kwh;
};

// One policy and its runs. The runs differ only in their seeds.
struct PolicyRuns {
  std::string name;
  std::vector<std::string> labels = {};  // The policies that the labels kPolicyLabel of its jobs name.
  std::vector<RunFacts> runs = {};       // At least one.
  std::optional<int64_t> largest_batch;  // The server's estimate; unset: not known.

  // Returns the mean of a value over the runs that succeeded or, if none did, over all runs. Unset if one of these runs
  // has no such value.
  std::optional<double> MeanOf(std::optional<double> RunFacts::*value) const;
  std::optional<double> MeanLoss() const;  // Mean of the losses at the ends of the runs (Tail::level).
  // Returns the price of one run: its device hours and, if it was measured, its energy. Unset if neither price is
  // known.
  std::optional<double> Cost(const Rates& rates) const;
  std::optional<double> CarbonGrams(const Rates& rates) const;

  bool emulated() const { return runs.front().emulated; }
  std::vector<RunFacts> Counted() const;
};

// A policy's value minus the baseline's value. Unset if the policy or the baseline has no measured value.
struct PolicyDifference {
  std::optional<Difference> step_time;  // Share of the baseline's time: -0.25 means 25% less time.
  std::optional<Difference> train_loss;
  std::optional<Difference> eval_loss;
  std::optional<Difference> eval_accuracy;
  std::optional<double> peak_memory;  // Share of the baseline's memory: 0.1 means 10% more memory.
  int num_pairs = 0;                  // Number of seeds with which both policies ran.
};

// Compares the policy with the baseline. If both ran with the same two or more seeds, the intervals are t intervals
// over these pairs of runs; that of the accuracy is at least as wide as the sampling error of the mean over the pairs,
// which is the value of the table below divided by the square root of num_pairs. Otherwise the intervals come from the
// noise within one run. Half the width of an interval is then:
//
//   training loss   2 sqrt(2) times the noise of the baseline's smoothed loss in its tail. The baseline's noise stands
//                   for that of both runs, so that strong noise in the policy's loss does not hide a difference.
//   accuracy        twice the combined sampling error of both accuracies, from num_eval_samples samples each
//   time            twice the combined noise of both paces (RunFacts::pace_noise)
//   evaluation loss not known
//
// In both cases, a difference of the training loss counts as noise if it is below a ten-thousandth of the fall of the
// baseline's loss, so that two losses near 0 are equal.
PolicyDifference DifferenceBetween(const PolicyRuns& policy, const PolicyRuns& baseline);

// Groups the runs by policy, in the order in which the policies first appear. `specs` are the jobs' specs, in the same
// order as `runs`. Two jobs have the same policy only if their specs are equal apart from seed, name, labels, queue and
// the like. The name of a policy is the job's label kPolicyLabel or, without the label, the preset; names are made
// unique.
std::vector<PolicyRuns> GroupByPolicy(const std::vector<RunFacts>& runs, const std::vector<v1::JobSpec>& specs);

// Whether GroupByPolicy takes jobs with these specs for runs of one policy.
bool HaveOnePolicy(const v1::JobSpec& one, const v1::JobSpec& other);

// Returns the place of the policy with this name or, if there is none, of the first with a job whose label has it. A
// policy has several labels if the precision of the job file equals a preset.
std::optional<size_t> PlaceOfPolicy(const std::vector<PolicyRuns>& policies, const std::string& name);

// Returns the names of the parts of the specs, such as "data" or "optimizer", that differ although a comparison of
// policies needs them equal. Ignores the precision, the seed, the name and the like.
std::vector<std::string> PartsThatDiffer(const std::vector<v1::JobSpec>& specs);

}  // namespace ampd::client
