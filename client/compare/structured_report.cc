#include <cmath>
#include <nlohmann/json.hpp>

#include "client/compare/report.h"
#include "client/render/yaml_text.h"

namespace ampd::client {
namespace {

using Json = nlohmann::ordered_json;

// Sets a member of the object if the value was measured. Infinity and NaN become null, because JSON has no such
// numbers.
void Set(Json* object, const char* name, std::optional<double> value) {
  if (value.has_value()) {
    (*object)[name] = std::isfinite(*value) ? Json(*value) : Json(nullptr);
  }
}

void Set(Json* object, const char* name, const std::optional<Difference>& difference) {
  if (difference.has_value()) {
    Json& member = (*object)[name];
    Set(&member, "value", difference->value);
    Set(&member, "noise", difference->half_width);
  }
}

Json RunJson(const RunFacts& run) {
  Json json = {{"jobId", run.job_id},
               {"jobName", run.job_name},
               {"seed", run.seed},
               {"state", v1::Job::State_Name(run.state)},
               {"reason", v1::Reason::Code_Name(run.reason)},
               {"precision", run.precision},
               {"device", run.device},
               {"numDevices", run.num_devices},
               {"numThreads", run.num_threads},
               {"emulated", run.emulated},
               {"steps", run.num_steps},
               {"stoppedEarly", run.stopped_early},
               {"skippedSteps", run.num_skipped},
               {"lossScaleAtFloor", run.num_scale_collapses},
               {"precisionRaises", run.num_precision_raises}};
  Set(&json, "stepSeconds", run.step_seconds);
  Set(&json, "samplesPerSecond", run.samples_per_second);
  Set(&json, "meanMemoryBytes", run.mean_memory_bytes);
  Set(&json, "peakMemoryBytes", run.peak_memory_bytes);
  Set(&json, "energyJoules", run.energy_joules);
  Set(&json, "modelFlopsPerSecond", run.flops_per_second);
  Set(&json, "mfu", run.mfu);
  if (run.loss_tail.has_value()) {
    Set(&json, "trainLoss", run.loss_tail->level);
    Set(&json, "trainLossNoise", run.loss_tail->noise);
  }
  Set(&json, "evalLoss", run.eval_loss);
  Set(&json, "evalAccuracy", run.eval_accuracy);
  return json;
}

const char* StandingName(Standing standing) {
  switch (standing) {
    case Standing::kBaseline:
      return "BASELINE";
    case Standing::kEqual:
      return "EQUAL";
    case Standing::kMoreAccurate:
      return "MORE_ACCURATE";
    case Standing::kLessAccurate:
      return "LESS_ACCURATE";
    case Standing::kUnknown:
      return "UNKNOWN";
    case Standing::kDiverged:
      return "DIVERGED";
    case Standing::kRaised:
      return "RAISED";
    case Standing::kFailed:
      return "FAILED";
  }
  return "UNKNOWN";
}

Json PolicyJson(const Comparison& comparison, size_t place) {
  const PolicyRuns& policy = comparison.policies[place];
  const PolicyVerdict& verdict = comparison.verdict.policies[place];
  Json json = {{"name", policy.name}, {"standing", StandingName(verdict.standing)}, {"isFaster", verdict.is_faster}};
  Json difference = Json::object();
  Set(&difference, "stepTimeShare", verdict.difference.step_time);
  Set(&difference, "peakMemoryShare", verdict.difference.peak_memory);
  Set(&difference, "trainLoss", verdict.difference.train_loss);
  Set(&difference, "evalLoss", verdict.difference.eval_loss);
  Set(&difference, "evalAccuracy", verdict.difference.eval_accuracy);
  if (!difference.empty()) {
    difference["numPairs"] = verdict.difference.num_pairs;
    json["difference"] = difference;
  }
  if (policy.largest_batch.has_value()) {
    json["largestBatch"] = *policy.largest_batch;
  }
  Set(&json, "price", policy.Cost(comparison.rates));
  Set(&json, "carbonGrams", policy.CarbonGrams(comparison.rates));
  for (const RunFacts& run : policy.runs) {
    json["runs"].push_back(RunJson(run));
  }
  return json;
}

Json ReportJson(const Comparison& comparison) {
  const Verdict& verdict = comparison.verdict;
  const auto name = [&comparison](std::optional<size_t> place) {
    return place.has_value() ? Json(comparison.policies[*place].name) : Json(nullptr);
  };
  Json json = {{"compare", comparison.id},
               {"name", comparison.model},
               {"baseline", name(verdict.baseline)},
               {"recommended", name(verdict.recommended)},
               {"verdict", verdict.choice + " " + verdict.reason},
               {"warnings", verdict.warnings},
               {"notes", verdict.notes},
               {"basis", verdict.basis},
               {"notMeasured", NotMeasured(comparison)},
               {"policies", Json::array()}};
  for (size_t place = 0; place < comparison.policies.size(); ++place) {
    json["policies"].push_back(PolicyJson(comparison, place));
  }
  return json;
}

YamlValue YamlOfJson(const Json& json) {
  switch (json.type()) {
    case Json::value_t::object: {
      YamlValue::Mapping mapping;
      for (const auto& [name, value] : json.items()) {
        mapping.push_back({SnakeCase(name), YamlOfJson(value)});
      }
      return {mapping};
    }
    case Json::value_t::array: {
      YamlValue::List list;
      for (const Json& value : json) {
        list.push_back(YamlOfJson(value));
      }
      return {list};
    }
    case Json::value_t::string:
      return YamlTextOf(json.get<std::string>());
    case Json::value_t::boolean:
      return YamlFlagOf(json.get<bool>());
    case Json::value_t::number_integer:
      return YamlNumberOf(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return YamlNumberOf(json.get<uint64_t>());
    case Json::value_t::number_float:
      return YamlNumberOf(json.get<double>());
    default:
      return {std::string("null")};
  }
}

}  // namespace

std::string JsonReport(const Comparison& comparison, bool indented) {
  constexpr int kIndent = 2;
  // Write a name that is not valid UTF-8 with replacement characters.
  return ReportJson(comparison)
             .dump(indented ? kIndent : -1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) +
         (indented ? "\n" : "");
}

std::string YamlReport(const Comparison& comparison) { return WriteYaml(YamlOfJson(ReportJson(comparison))); }

}  // namespace ampd::client
