#include "client/compare/comparison.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"

namespace ampd::client {
namespace {

constexpr double kJoulesPerKwh = 3.6e6;
constexpr double kSecondsPerHour = 3600;
constexpr double kLeastShareOfFall = 1e-4;

using Value = std::function<std::optional<double>(const RunFacts&)>;

std::optional<double> MeanIn(const std::vector<RunFacts>& runs, const Value& value) {
  std::vector<double> values;
  for (const RunFacts& run : runs) {
    const std::optional<double> of_run = value(run);
    if (!of_run.has_value()) {
      return std::nullopt;
    }
    values.push_back(*of_run);
  }
  return values.empty() ? std::nullopt : std::optional(Mean(values));
}

std::optional<double> LossLevel(const RunFacts& run) {
  return run.loss_tail.has_value() ? std::optional(run.loss_tail->level) : std::nullopt;
}

// Groups the runs by seed. Runs with the same seed are not independent, so they count as one repeat.
std::map<uint64_t, std::vector<RunFacts>> BySeed(const std::vector<RunFacts>& runs) {
  std::map<uint64_t, std::vector<RunFacts>> by_seed;
  for (const RunFacts& run : runs) {
    by_seed[run.seed].push_back(run);
  }
  return by_seed;
}

// The runs of two policies with one seed.
struct Pair {
  std::vector<RunFacts> policy;
  std::vector<RunFacts> baseline;
};

std::vector<Pair> PairsOf(const PolicyRuns& policy, const PolicyRuns& baseline) {
  std::vector<Pair> pairs;
  const auto of_baseline = BySeed(baseline.Counted());
  for (const auto& [seed, runs] : BySeed(policy.Counted())) {
    if (const auto found = of_baseline.find(seed); found != of_baseline.end()) {
      pairs.push_back({runs, found->second});
    }
  }
  return pairs;
}

// Returns the mean difference of a value over all pairs of runs with the same seed. If `relative`, each difference is
// divided by the baseline's value. If there is no such pair, returns the difference of the means of all runs.
std::optional<Difference> DifferenceOf(const PolicyRuns& policy, const PolicyRuns& baseline, const Value& value,
                                       bool relative) {
  std::vector<Pair> pairs = PairsOf(policy, baseline);
  if (pairs.empty()) {
    pairs.push_back({policy.Counted(), baseline.Counted()});
  }
  std::vector<double> differences;
  for (const Pair& pair : pairs) {
    const std::optional<double> of_policy = MeanIn(pair.policy, value);
    const std::optional<double> of_baseline = MeanIn(pair.baseline, value);
    if (!of_policy.has_value() || !of_baseline.has_value() || (relative && *of_baseline == 0)) {
      return std::nullopt;
    }
    differences.push_back((*of_policy - *of_baseline) / (relative ? *of_baseline : 1));
  }
  return MeanOfPairs(differences);
}

std::optional<double> TailNoise(const RunFacts& run) {
  return run.loss_tail.has_value() ? std::optional(run.loss_tail->noise) : std::nullopt;
}

// Returns half the width of the 95% interval of a difference of two values with these standard deviations.
double HalfWidth(double noise, double other_noise) { return 2 * std::hypot(noise, other_noise); }

// Returns the standard error of the policy's accuracy, from the number of evaluated samples.
std::optional<double> SamplingError(const PolicyRuns& policy) {
  const std::optional<double> accuracy = policy.MeanOf(&RunFacts::eval_accuracy);
  const int64_t count = policy.runs.front().num_eval_samples;
  if (!accuracy.has_value() || count < 1) {
    return std::nullopt;
  }
  return std::sqrt(*accuracy * (1 - *accuracy) / static_cast<double>(count));
}

void SetNoise(std::optional<Difference>* difference, std::optional<double> noise, std::optional<double> other_noise) {
  if (difference->has_value() && noise.has_value() && other_noise.has_value()) {
    (*difference)->half_width = HalfWidth(*noise, *other_noise);
  }
}

// Returns the distance from the run's first loss to the mean loss of its tail.
std::optional<double> Fall(const RunFacts& run) {
  return run.loss_tail.has_value() && !run.losses.empty()
             ? std::optional(std::abs(run.losses.front().value - run.loss_tail->level))
             : std::nullopt;
}

// Sets the noise of the differences for policies that share fewer than two seeds. It comes from the noise within single
// runs.
void SetNoiseWithinRuns(const PolicyRuns& policy, const PolicyRuns& baseline, PolicyDifference* difference) {
  const std::optional<double> loss_noise = MeanIn(baseline.Counted(), TailNoise);
  SetNoise(&difference->train_loss, loss_noise, loss_noise);
  SetNoise(&difference->eval_accuracy, SamplingError(policy), SamplingError(baseline));
  SetNoise(&difference->step_time, policy.MeanOf(&RunFacts::pace_noise), baseline.MeanOf(&RunFacts::pace_noise));
}

// Makes the noise of the accuracy at least the sampling error of the mean over the pairs. An accuracy is a whole number
// of samples, so the differences of a few pairs are often equal by chance. The t interval over them then has no width.
void WidenBySamplingError(const PolicyRuns& policy, const PolicyRuns& baseline, PolicyDifference* difference) {
  std::optional<Difference>& accuracy = difference->eval_accuracy;
  const std::optional<double> error = SamplingError(policy);
  const std::optional<double> other_error = SamplingError(baseline);
  if (accuracy.has_value() && accuracy->half_width.has_value() && error.has_value() && other_error.has_value()) {
    const double least = HalfWidth(*error, *other_error) / std::sqrt(difference->num_pairs);
    accuracy->half_width = std::max(*accuracy->half_width, least);
  }
}

// Returns the spec without the fields in which the runs of one policy may differ.
v1::JobSpec ComparedPart(const v1::JobSpec& spec) {
  v1::JobSpec part = spec;
  part.clear_name();
  part.clear_labels();
  part.clear_queue();
  part.clear_priority();
  part.clear_deadline();
  part.clear_max_retries();
  part.clear_checkpoint();
  part.clear_resources();
  part.clear_sample();
  part.mutable_train()->clear_seed();
  return part;
}

std::string BytesOf(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

// Returns the policy that the job's label names; "" if the job has no such label.
std::string LabelOf(const v1::JobSpec& spec) {
  const auto label = spec.labels().find(kPolicyLabel);
  return label == spec.labels().end() ? "" : label->second;
}

std::string NameOf(const RunFacts& run, const v1::JobSpec& spec) {
  if (const std::string label = LabelOf(spec); !label.empty()) {
    return label;
  }
  const std::string& preset = spec.precision().preset();
  return !run.precision.empty() ? run.precision : preset.empty() ? "fp32" : preset;
}

std::string Unused(const std::string& name, const std::string& job_name, const std::vector<PolicyRuns>& policies) {
  const auto is_used = [&policies](const std::string& text) {
    return std::any_of(policies.begin(), policies.end(),
                       [&text](const PolicyRuns& policy) { return policy.name == text; });
  };
  std::string unused = name;
  for (int number = 1; is_used(unused); ++number) {
    unused = absl::StrCat(name, " (", job_name, number == 1 ? "" : absl::StrCat(" ", number), ")");
  }
  return unused;
}

}  // namespace

std::vector<RunFacts> PolicyRuns::Counted() const {
  std::vector<RunFacts> counted;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(counted),
               [](const RunFacts& run) { return run.succeeded(); });
  return counted.empty() ? runs : counted;
}

std::optional<double> PolicyRuns::MeanOf(std::optional<double> RunFacts::*value) const {
  return MeanIn(Counted(), [value](const RunFacts& run) { return run.*value; });
}

std::optional<double> PolicyRuns::MeanLoss() const { return MeanIn(Counted(), LossLevel); }

std::optional<double> PolicyRuns::Cost(const Rates& rates) const {
  const std::optional<double> joules = MeanOf(&RunFacts::energy_joules);
  const std::optional<double> seconds = MeanOf(&RunFacts::step_seconds);
  std::optional<double> cost;
  if (rates.price_per_device_hour.has_value() && seconds.has_value()) {
    cost = *seconds / kSecondsPerHour * runs.front().num_devices * *rates.price_per_device_hour;
  }
  if (rates.price_per_kwh.has_value() && joules.has_value()) {
    cost = cost.value_or(0) + *joules / kJoulesPerKwh * *rates.price_per_kwh;
  }
  return cost;
}

std::optional<double> PolicyRuns::CarbonGrams(const Rates& rates) const {
  const std::optional<double> joules = MeanOf(&RunFacts::energy_joules);
  return joules.has_value() && rates.carbon_grams_per_kwh.has_value()
             ? std::optional(*joules / kJoulesPerKwh * *rates.carbon_grams_per_kwh)
             : std::nullopt;
}

PolicyDifference DifferenceBetween(const PolicyRuns& policy, const PolicyRuns& baseline) {
  const auto of = [](std::optional<double> RunFacts::*value) {
    return [value](const RunFacts& run) { return run.*value; };
  };
  PolicyDifference difference = {
      .step_time = DifferenceOf(policy, baseline, of(&RunFacts::step_seconds), /*relative=*/true),
      .train_loss = DifferenceOf(policy, baseline, LossLevel, /*relative=*/false),
      .eval_loss = DifferenceOf(policy, baseline, of(&RunFacts::eval_loss), /*relative=*/false),
      .eval_accuracy = DifferenceOf(policy, baseline, of(&RunFacts::eval_accuracy), /*relative=*/false),
      .num_pairs = static_cast<int>(PairsOf(policy, baseline).size())};
  const auto memory = DifferenceOf(policy, baseline, of(&RunFacts::peak_memory_bytes), /*relative=*/true);
  if (memory.has_value()) {
    difference.peak_memory = memory->value;
  }
  if (difference.num_pairs < 2) {
    SetNoiseWithinRuns(policy, baseline, &difference);
  } else {
    WidenBySamplingError(policy, baseline, &difference);
  }
  const double least_loss = kLeastShareOfFall * MeanIn(baseline.Counted(), Fall).value_or(0);
  if (difference.train_loss.has_value() && difference.train_loss->half_width.has_value()) {
    difference.train_loss->half_width = std::max(*difference.train_loss->half_width, least_loss);
  }
  return difference;
}

std::vector<PolicyRuns> GroupByPolicy(const std::vector<RunFacts>& runs, const std::vector<v1::JobSpec>& specs) {
  std::vector<PolicyRuns> policies;
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto [place, is_new] = places.emplace(BytesOf(ComparedPart(specs[i])), policies.size());
    if (is_new) {
      policies.push_back({.name = Unused(NameOf(runs[i], specs[i]), specs[i].name(), policies)});
    }
    PolicyRuns& policy = policies[place->second];
    policy.runs.push_back(runs[i]);
    if (const std::string label = LabelOf(specs[i]);
        !label.empty() && std::find(policy.labels.begin(), policy.labels.end(), label) == policy.labels.end()) {
      policy.labels.push_back(label);
    }
  }
  return policies;
}

bool HaveOnePolicy(const v1::JobSpec& one, const v1::JobSpec& other) {
  return BytesOf(ComparedPart(one)) == BytesOf(ComparedPart(other));
}

std::optional<size_t> PlaceOfPolicy(const std::vector<PolicyRuns>& policies, const std::string& name) {
  auto found =
      std::find_if(policies.begin(), policies.end(), [&name](const PolicyRuns& policy) { return policy.name == name; });
  if (found == policies.end()) {
    found = std::find_if(policies.begin(), policies.end(), [&name](const PolicyRuns& policy) {
      return std::find(policy.labels.begin(), policy.labels.end(), name) != policy.labels.end();
    });
  }
  return found == policies.end() ? std::nullopt
                                 : std::optional(static_cast<size_t>(std::distance(policies.begin(), found)));
}

std::vector<std::string> PartsThatDiffer(const std::vector<v1::JobSpec>& specs) {
  std::vector<std::string> names;
  const google::protobuf::Descriptor& type = *v1::JobSpec::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* const field = type.field(i);
    if (field->number() == v1::JobSpec::kPrecisionFieldNumber) {
      continue;
    }
    std::set<std::string> values;
    for (const v1::JobSpec& spec : specs) {
      v1::JobSpec part;
      v1::JobSpec compared = ComparedPart(spec);
      part.GetReflection()->SwapFields(&part, &compared, {field});
      values.insert(BytesOf(part));
    }
    if (values.size() > 1) {
      names.push_back(field->name());
    }
  }
  return names;
}

}  // namespace ampd::client
