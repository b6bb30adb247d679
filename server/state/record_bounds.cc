#include "server/state/record_bounds.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/text.h"

namespace ampd::server {
namespace {

constexpr size_t kMaxMessageBytes = 4 << 10;
constexpr size_t kMaxShortTextBytes = 256;  // Limit for names and hashes.
constexpr size_t kMaxPhasesBytes = 4 << 10;
constexpr size_t kMaxAttributeBytes = 1 << 10;
constexpr int kMaxAttributes = 32;
constexpr size_t kMaxGradientBytes = 1 << 20;
constexpr size_t kMaxRegistrationBytes = 64 << 10;

void Shorten(size_t max_bytes, std::string* text) {
  if (text->size() > max_bytes) {
    *text = Shortened(*text, max_bytes);
  }
}

void BoundAttributes(v1::Event* event) {
  std::vector<std::string> left_out;
  int num_kept = 0;
  for (auto& [key, value] : *event->mutable_attributes()) {
    Shorten(kMaxAttributeBytes, &value);
    if (key.size() > kMaxShortTextBytes || num_kept == kMaxAttributes) {
      left_out.push_back(key);
    } else {
      ++num_kept;
    }
  }
  for (const std::string& key : left_out) {
    event->mutable_attributes()->erase(key);
  }
  if (!left_out.empty()) {
    absl::StrAppend(event->mutable_message(), " (", left_out.size(), " attributes are left out)");
  }
}

void BoundGradients(v1::Event* event) {
  auto& modules = *event->mutable_gradients()->mutable_modules();
  const int num_modules = modules.size();
  size_t num_bytes = 0;
  int num_kept = 0;
  while (num_kept < num_modules) {
    num_bytes += modules[num_kept].ByteSizeLong();
    if (num_bytes > kMaxGradientBytes) {
      break;
    }
    ++num_kept;
  }
  if (num_kept < num_modules) {
    modules.DeleteSubrange(num_kept, num_modules - num_kept);
    absl::StrAppend(event->mutable_message(), " (", num_kept, " of ", num_modules, " modules are kept)");
  }
}

// Collects the fields that exceed their size limits.
class SizeCheck {
 public:
  void AtMost(size_t max_bytes, const std::string& field, size_t num_bytes) {
    if (num_bytes > max_bytes) {
      violations_.push_back({field, absl::StrCat("has ", num_bytes, " bytes; at most ", max_bytes)});
    }
  }
  absl::Status ToStatus() const { return violations_.empty() ? absl::OkStatus() : InvalidFields(violations_); }

 private:
  std::vector<FieldViolation> violations_;
};

void CheckAttempt(const std::string& field, const v1::AttemptReport& attempt, SizeCheck& check) {
  check.AtMost(kMaxShortTextBytes, field + ".key.job_id", attempt.key().job_id().size());
  check.AtMost(kMaxShortTextBytes, field + ".key.token", attempt.key().token().size());
  check.AtMost(kMaxShortTextBytes, field + ".precision", attempt.precision().size());
  check.AtMost(kMaxShortTextBytes, field + ".outcome.final_metrics.state_hash",
               attempt.outcome().final_metrics().state_hash().size());
  size_t phases = 0;
  for (const v1::PhaseLoss& phase : attempt.outcome().final_metrics().phases()) {
    phases += phase.ByteSizeLong();
  }
  check.AtMost(kMaxPhasesBytes, field + ".outcome.final_metrics.phases", phases);
  for (int i = 0; i < attempt.checkpoints_size(); ++i) {
    const v1::Checkpoint& checkpoint = attempt.checkpoints(i);
    const std::string of_checkpoint = absl::StrCat(field, ".checkpoints[", i, "]");
    check.AtMost(kMaxShortTextBytes, of_checkpoint + ".path", checkpoint.path().size());
    check.AtMost(kMaxShortTextBytes, of_checkpoint + ".worker", checkpoint.worker().size());
    check.AtMost(kMaxShortTextBytes, of_checkpoint + ".agent", checkpoint.agent().size());
    check.AtMost(kMaxShortTextBytes, of_checkpoint + ".manifest_sha256", checkpoint.manifest_sha256().size());
    check.AtMost(kMaxShortTextBytes, of_checkpoint + ".state_hash", checkpoint.state_hash().size());
  }
}

}  // namespace

void BoundEvent(v1::Event* event) {
  Shorten(kMaxMessageBytes, event->mutable_message());
  BoundAttributes(event);
  if (event->has_gradients()) {
    BoundGradients(event);
  }
}

void BoundOutcome(v1::Outcome* outcome) { Shorten(kMaxMessageBytes, outcome->mutable_message()); }

absl::Status CheckReportSizes(const v1::WorkerReport& report) {
  SizeCheck check;
  size_t registration = report.version().size() + report.metrics_address().size();
  for (const v1::Device& device : report.devices()) {
    registration += device.ByteSizeLong();
  }
  for (const std::string& root : report.data_roots()) {
    registration += root.size();
  }
  for (const v1::DataRootTenants& limit : report.data_root_tenants()) {
    registration += limit.ByteSizeLong();
  }
  for (const std::string& tenant : report.tenants()) {
    registration += tenant.size();
  }
  check.AtMost(kMaxRegistrationBytes, "devices, data_roots, tenants, version and metrics_address", registration);
  for (int i = 0; i < report.attempts_size(); ++i) {
    CheckAttempt(absl::StrCat("attempts[", i, "]"), report.attempts(i), check);
  }
  return check.ToStatus();
}

}  // namespace ampd::server
