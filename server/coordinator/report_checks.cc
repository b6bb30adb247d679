#include "server/coordinator/report_checks.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/api/tenants.h"
#include "base/api/worker_name.h"
#include "base/api/worker_protocol.h"
#include "base/error.h"
#include "base/text.h"
#include "base/version.h"

namespace ampd::server {
namespace {

using internal::JobRecord;
using v1::Outcome;

constexpr int kMaxDevices = 1024;
constexpr int kMaxDataRoots = 1024;
constexpr int kMaxTenants = 64;  // Limit for the tenants to which a worker, or one of its data roots, is restricted.
constexpr int kMaxInstructionSets = 256;
constexpr size_t kMaxWordBytes = 256;
constexpr size_t kMaxIncarnationBytes = 128;
constexpr size_t kMaxAgentIdBytes = 64;
constexpr size_t kMaxAgentPlaceBytes = 512;
constexpr size_t kMaxLineBytes = 4096;
constexpr size_t kMaxPrecisionBytes = 64;
constexpr size_t kSha256Characters = 64;
constexpr int64_t kMaxBytes = int64_t{1} << 60;
constexpr int64_t kMaxSteps = int64_t{1} << 53;  // A double represents every integer up to this one exactly.
constexpr uint64_t kMaxSequence = uint64_t{1} << 53;
constexpr char kNotFinite[] = "a loss or accuracy in final_metrics is not finite";

std::string TooLong(size_t size, size_t limit) { return absl::StrCat("has ", size, " bytes; at most ", limit); }

bool IsSha256(const std::string& text) {
  return text.size() == kSha256Characters && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

void CheckSize(const std::string& field, const std::string& value, size_t limit,
               std::vector<FieldViolation>* violations) {
  if (value.size() > limit) {
    violations->push_back({field, TooLong(value.size(), limit)});
  }
}

void CheckDevice(const std::string& field, const v1::Device& device, std::vector<FieldViolation>* violations) {
  if (device.id().empty()) {
    violations->push_back({field + ".id", "is empty"});
  }
  const std::pair<const char*, const std::string*> words[] = {
      {".id", &device.id()}, {".name", &device.name()}, {".uuid", &device.uuid()}};
  for (const auto& [name, word] : words) {
    CheckSize(field + name, *word, kMaxWordBytes, violations);
  }
  CheckSize(field + ".unhealthy_reason", device.unhealthy_reason(), kMaxLineBytes, violations);
  for (const int64_t bytes : {device.memory_total_bytes(), device.memory_free_bytes()}) {
    if (bytes < 0 || bytes > kMaxBytes) {
      violations->push_back({field, absl::StrCat("has a memory of ", bytes, " bytes")});
    }
  }
  if (device.instruction_sets_size() > kMaxInstructionSets) {
    violations->push_back({field + ".instruction_sets", absl::StrCat("has ", device.instruction_sets_size(),
                                                                     " entries; at most ", kMaxInstructionSets)});
  }
  for (const std::string& set : device.instruction_sets()) {
    CheckSize(field + ".instruction_sets", set, kMaxWordBytes, violations);
  }
}

void CheckTenants(const std::string& field, const google::protobuf::RepeatedPtrField<std::string>& tenants,
                  std::vector<FieldViolation>* violations) {
  if (tenants.size() > kMaxTenants) {
    violations->push_back({field, absl::StrCat("has ", tenants.size(), " entries; at most ", kMaxTenants)});
  }
  for (const std::string& tenant : tenants) {
    const std::vector<FieldViolation> found = ViolationsOf(CheckTenantName(field, tenant));
    violations->insert(violations->end(), found.begin(), found.end());
  }
}

void CheckLists(const v1::WorkerReport& report, std::vector<FieldViolation>* violations) {
  if (report.devices_size() > kMaxDevices) {
    violations->push_back({"devices", absl::StrCat("has ", report.devices_size(), " entries; at most ", kMaxDevices)});
    return;
  }
  std::set<std::string> ids;
  for (int i = 0; i < report.devices_size(); ++i) {
    const std::string field = absl::StrCat("devices[", i, "]");
    CheckDevice(field, report.devices(i), violations);
    if (!ids.insert(report.devices(i).id()).second) {
      violations->push_back({field + ".id", "is another device's too"});
    }
  }
  if (report.data_roots_size() > kMaxDataRoots) {
    violations->push_back(
        {"data_roots", absl::StrCat("has ", report.data_roots_size(), " entries; at most ", kMaxDataRoots)});
  }
  for (const std::string& root : report.data_roots()) {
    CheckSize("data_roots", root, kMaxWordBytes, violations);
  }
  CheckTenants("tenants", report.tenants(), violations);
  if (report.data_root_tenants_size() > kMaxDataRoots) {
    violations->push_back({"data_root_tenants",
                           absl::StrCat("has ", report.data_root_tenants_size(), " entries; at most ", kMaxDataRoots)});
  }
  for (const v1::DataRootTenants& limit : report.data_root_tenants()) {
    CheckSize("data_root_tenants", limit.data_root(), kMaxWordBytes, violations);
    CheckTenants("data_root_tenants", limit.tenants(), violations);
  }
}

// Returns the number of steps of the job, or 0 if it is not known yet.
int64_t TotalSteps(const JobRecord& record, const v1::Attempt* attempt) {
  const int64_t asked = record.job().spec().train().steps();
  return asked > 0 ? asked : attempt != nullptr ? attempt->total_steps() : 0;
}

const v1::Attempt* FindAttempt(const JobRecord& record, int32_t number) {
  const auto& attempts = record.job().attempts();
  const auto found = std::find_if(attempts.begin(), attempts.end(),
                                  [number](const v1::Attempt& attempt) { return attempt.number() == number; });
  return found == attempts.end() ? nullptr : &*found;
}

std::string StepOddity(int64_t step, int64_t total_steps) {
  if (step < 0 || step > kMaxSteps) {
    return absl::StrCat("step ", step, " is out of range");
  }
  return total_steps > 0 && step > total_steps ? absl::StrCat("step ", step, " is beyond the last, ", total_steps) : "";
}

// Whether the value is between 0 and 1. Returns true for NaN, because another check handles NaN.
bool IsShare(double value) { return std::isnan(value) || (value >= 0 && value <= 1); }

std::string GpuUseOddity(const v1::GpuUse& use) {
  constexpr int kMostKindsOfXid = 256;
  const auto is_odd = [](double value) { return !std::isfinite(value) || value < 0; };
  if (is_odd(use.mean_power_watts()) || is_odd(use.mean_sm_clock_hertz()) ||
      !std::isfinite(use.max_temperature_celsius()) || !std::isfinite(use.mean_utilization()) ||
      !IsShare(use.mean_utilization())) {
    return "a reading in final_metrics.gpu_use is out of range";
  }
  for (const int64_t count : {use.ecc_errors_corrected(), use.ecc_errors_uncorrected(), use.reserved_peak_bytes(),
                              use.graph_bytes(), use.context_bytes(), use.others_bytes()}) {
    if (count < 0 || count > kMaxBytes) {
      return absl::StrCat("a count in final_metrics.gpu_use is ", count);
    }
  }
  return use.xid_errors_size() <= kMostKindsOfXid ? "" : "final_metrics.gpu_use has too many kinds of Xid";
}

std::string MetricOddity(const v1::FinalMetrics& metrics) {
  if (!std::isfinite(metrics.steps_per_second()) || metrics.steps_per_second() < 0) {
    return "final_metrics.steps_per_second is no speed";
  }
  if (!std::isfinite(metrics.final_loss_scale()) || metrics.final_loss_scale() < 0) {
    return "final_metrics.final_loss_scale is no scale";
  }
  if (metrics.peak_memory_bytes() < 0 || metrics.peak_memory_bytes() > kMaxBytes) {
    return absl::StrCat("final_metrics.peak_memory_bytes is ", metrics.peak_memory_bytes());
  }
  if (metrics.skipped_steps() < 0 || metrics.skipped_steps() > kMaxSteps) {
    return absl::StrCat("final_metrics.skipped_steps is ", metrics.skipped_steps());
  }
  if (!std::isfinite(metrics.energy_joules()) || metrics.energy_joules() < 0) {
    return "final_metrics.energy_joules is no energy";
  }
  if (!std::isfinite(metrics.flops_per_step()) || metrics.flops_per_step() < 0) {
    return "final_metrics.flops_per_step is no number of operations";
  }
  if (!std::isfinite(metrics.mfu()) || metrics.mfu() < 0) {
    return "final_metrics.mfu is no utilization";
  }
  if (const std::string oddity = GpuUseOddity(metrics.gpu_use()); !oddity.empty()) {
    return oddity;
  }
  if ((metrics.has_eval_accuracy() && !IsShare(metrics.eval_accuracy())) ||
      (metrics.has_eval_f1() && !IsShare(metrics.eval_f1())) ||
      (metrics.has_eval_top5_accuracy() && !IsShare(metrics.eval_top5_accuracy()))) {
    return "a share in final_metrics is not between 0 and 1";
  }
  return metrics.state_hash().empty() || IsSha256(metrics.state_hash()) ? "" : "final_metrics.state_hash is no SHA-256";
}

// Whether train.early_stopping may have ended a job at this step. This needs an evaluation at this step, and enough
// evaluations up to it.
bool MayStopEarlyAt(const v1::JobSpec& spec, int64_t step) {
  const int64_t every_steps = spec.eval().every_steps();
  return spec.train().has_early_stopping() && every_steps > 0 && step > 0 && step % every_steps == 0 &&
         step / every_steps >= spec.train().early_stopping().patience();
}

// Whether losses of the job may be infinite or NaN. With WARN, training continues in spite of such losses.
bool MayHaveOddLoss(const JobRecord& record) { return record.job().spec().on_divergence() == v1::JobSpec::WARN; }

}  // namespace

absl::Status CheckRegistration(const v1::WorkerReport& report) {
  std::vector<FieldViolation> violations;
  if (const absl::Status name = CheckWorkerName(report.worker()); !name.ok()) {
    violations.push_back({"worker", std::string(name.message())});
  }
  if (report.incarnation().empty() || report.incarnation().size() > kMaxIncarnationBytes) {
    violations.push_back({"incarnation", absl::StrCat("has ", report.incarnation().size(), " bytes; must have 1 to ",
                                                      kMaxIncarnationBytes)});
  }
  CheckSize("agent.id", report.agent().id(), kMaxAgentIdBytes, &violations);
  CheckSize("agent.place", report.agent().place(), kMaxAgentPlaceBytes, &violations);
  CheckSize("version", report.version(), kMaxWordBytes, &violations);
  CheckSize("metrics_address", report.metrics_address(), kMaxWordBytes, &violations);
  CheckLists(report, &violations);
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

absl::Status CheckProtocol(const v1::WorkerReport& report) {
  const int32_t newest = std::max(1, report.newest_protocol());
  const int32_t oldest = std::max(1, report.oldest_protocol());
  if (newest >= kOldestWorkerProtocol && oldest <= kNewestWorkerProtocol) {
    return absl::OkStatus();
  }
  return Error(
      absl::StatusCode::kFailedPrecondition, "WORKER_PROTOCOL_UNSUPPORTED",
      absl::StrCat("worker ", report.worker(), " of ampd ", Shortened(report.version(), kMaxWordBytes),
                   " speaks versions ", oldest, " to ", newest, " of the workers' protocol, and this server of ampd ",
                   Version(), " speaks ", kOldestWorkerProtocol, " to ", kNewestWorkerProtocol, "; upgrade the ",
                   oldest > kNewestWorkerProtocol ? "server" : "worker"));
}

std::string FindOddity(const JobRecord& record, const v1::AttemptKey& key, const v1::Checkpoint& checkpoint) {
  if (checkpoint.attempt() != key.attempt()) {
    return absl::StrCat("a checkpoint is said to be of attempt ", checkpoint.attempt());
  }
  if (std::string oddity = StepOddity(checkpoint.step(), TotalSteps(record, FindAttempt(record, key.attempt())));
      !oddity.empty()) {
    return "a checkpoint's " + oddity;
  }
  if (checkpoint.size_bytes() < 0 || checkpoint.size_bytes() > kMaxBytes) {
    return absl::StrCat("a checkpoint's size_bytes is ", checkpoint.size_bytes());
  }
  if (!IsSha256(checkpoint.manifest_sha256()) || !IsSha256(checkpoint.state_hash())) {
    return "a checkpoint's manifest_sha256 or state_hash is no SHA-256";
  }
  return "";
}

std::string FindOddity(const JobRecord& record, const v1::AttemptReport& report) {
  const int64_t asked = record.job().spec().train().steps();
  if (report.total_steps() < 0 || report.total_steps() > kMaxSteps ||
      (asked > 0 && report.total_steps() > 0 && report.total_steps() != asked)) {
    return absl::StrCat("total_steps is ", report.total_steps());
  }
  if (report.precision().size() > kMaxPrecisionBytes) {
    return absl::StrCat("precision ", TooLong(report.precision().size(), kMaxPrecisionBytes));
  }
  return StepOddity(report.step(), asked > 0 ? asked : report.total_steps());
}

std::string FindOddity(const JobRecord& record, const v1::Attempt& attempt, const Outcome& outcome) {
  const int64_t total_steps = TotalSteps(record, &attempt);
  if (std::string oddity = StepOddity(outcome.last_step(), total_steps); !oddity.empty()) {
    return "last_" + oddity;
  }
  if (outcome.last_sequence() > kMaxSequence) {
    return absl::StrCat("last_sequence is ", outcome.last_sequence());
  }
  if (std::string oddity = MetricOddity(outcome.final_metrics()); !oddity.empty()) {
    return oddity;
  }
  if (outcome.kind() != Outcome::FINISHED) {
    return "";
  }
  const bool is_recorded = record.last_checkpoint_attempt() == attempt.number();
  const bool stopped_early = outcome.last_step() < total_steps;
  if (stopped_early && !MayStopEarlyAt(record.job().spec(), outcome.last_step())) {
    return absl::StrCat("it finished at step ", outcome.last_step(), " of ", total_steps);
  }
  // An attempt whose checkpoint is damaged falls back to an older checkpoint, so early stopping may end it before
  // `from_step`.
  const int64_t least =
      std::max(stopped_early ? 0 : attempt.from_step(), is_recorded ? record.last_checkpoint_step() : 0);
  if (outcome.last_step() < least) {
    return absl::StrCat("it finished at step ", outcome.last_step(), ", before step ", least);
  }
  const v1::FinalMetrics& metrics = outcome.final_metrics();
  // The perplexity is not checked, because it may overflow a double even if the loss is finite.
  const bool is_finite = std::isfinite(metrics.train_loss()) && std::isfinite(metrics.eval_loss()) &&
                         std::isfinite(metrics.eval_accuracy()) && std::isfinite(metrics.generator_loss()) &&
                         std::all_of(metrics.phases().begin(), metrics.phases().end(),
                                     [](const v1::PhaseLoss& phase) { return std::isfinite(phase.loss()); });
  return is_finite || MayHaveOddLoss(record) ? "" : kNotFinite;
}

Outcome InPlaceOf(const Outcome& outcome, const std::string& oddity) {
  Outcome failed;
  failed.set_kind(Outcome::FAILED);
  failed.set_reason(oddity == kNotFinite ? v1::Reason::NONFINITE_LOSS : v1::Reason::INTERNAL);
  failed.set_message(absl::StrCat("the worker reported an end that can't be: ", oddity));
  failed.set_last_step(std::clamp<int64_t>(outcome.last_step(), 0, kMaxSteps));
  return failed;
}

}  // namespace ampd::server
