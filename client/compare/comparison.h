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

// What energy and the use of a device cost. Unset: not given.
struct Rates {
  std::optional<double> price_per_device_hour;
  std::optional<double> price_per_kwh;
  std::optional<double> carbon_grams_per_kwh;
};

// One policy and its runs, which differ only in their seeds.
struct PolicyRuns {
  std::string name;
  std::vector<RunFacts> runs;            // At least one.
  std::optional<int64_t> largest_batch;  // As the server estimates; unset: not known.

  // The mean of a value over the runs that count. Unset if it was not measured in all of them. The runs that succeeded
  // count or, if there are none, all runs.
  std::optional<double> MeanOf(std::optional<double> RunFacts::*value) const;
  std::optional<double> MeanLoss() const;  // Mean of the loss tails' levels.
  // The price of one run: its device hours and, if it was measured, its energy. Unset: nothing of it is known.
  std::optional<double> Cost(const Rates& rates) const;
  std::optional<double> CarbonGrams(const Rates& rates) const;

  bool emulated() const { return runs.front().emulated; }
  std::vector<RunFacts> Counted() const;
};

// How a policy differs from the baseline: the policy's value minus the baseline's. Unset: not measured for both.
struct PolicyDifference {
  std::optional<Difference> step_time;  // As a share of the baseline's time: -0.25 means 25% less time.
  std::optional<Difference> train_loss;
  std::optional<Difference> eval_loss;
  std::optional<Difference> eval_accuracy;
  std::optional<double> peak_memory;  // As a share of the baseline's memory.
  int num_pairs = 0;                  // Number of seeds with which both policies ran.
};

// Compares the policy with the baseline. If both ran with the same two or more seeds, the intervals are t intervals
// over these pairs. Otherwise they come from the noise within one run:
//
//   training loss   2 sqrt(2) times the noise of the baseline's smoothed loss in its tail. The baseline's noise stands
//                   for that of both runs, so that a policy with a wild loss does not hide behind its own noise.
//   accuracy        the sampling error of two shares of num_eval_samples samples
//   time            twice the noise of both paces
//   evaluation loss not known
//
// In both cases, differences of the training loss below a ten-thousandth of what the baseline's loss has fallen count
// as noise, so that two losses near 0 are equal.
PolicyDifference DifferenceBetween(const PolicyRuns& policy, const PolicyRuns& baseline);

// Groups the runs by policy, in the order in which the policies first appear. `specs` are the jobs' specs, in the same
// order. Jobs whose specs differ in anything but seed, name, labels, queue and the like are never one policy. A policy
// is named by the job's label kPolicyLabel or, without one, by its preset; two policies never get the same name.
std::vector<PolicyRuns> GroupByPolicy(const std::vector<RunFacts>& runs, const std::vector<v1::JobSpec>& specs);

// Returns the names of the parts of the specs that differ although a comparison of policies needs them equal: "data",
// "optimizer". The precision, the seed, the name and the like may differ.
std::vector<std::string> PartsThatDiffer(const std::vector<v1::JobSpec>& specs);

}  // namespace ampd::client
