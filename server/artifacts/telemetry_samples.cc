#include "server/artifacts/telemetry_samples.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace ampd::server {
namespace {

// Whether a generated sample that could not be stored is dropped, so that the worker does not send it again. A sample
// is dropped if it is malformed, or if the quota or the disk is full, because another try would most likely fail too.
// One stream carries the telemetry of all attempts of a worker, so waiting for one attempt's samples would delay the
// other attempts.
bool IsRefused(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return absl::IsInvalidArgument(status) || reason == "ARTIFACT_QUOTA" || reason == "TENANT_LIMIT" ||
         reason == "DISK_FULL";
}

v1::Event Refusal(const v1::Sample& sample, const absl::Status& why, absl::Time now) {
  v1::Event event;
  event.set_kind(v1::Event::TELEMETRY_REFUSED);
  event.set_attempt_sequence(sample.attempt_sequence());
  event.set_step(sample.step());
  event.set_time_unix_micros(absl::ToUnixMicros(now));
  event.set_message(absl::StrCat("a sample of step ", sample.step(), " was dropped: ", why.message()));
  return event;
}

}  // namespace

absl::Status StoreSamples(const std::string& tenant, const v1::AttemptKey& key, absl::Time now, ArtifactStore* store,
                          v1::TelemetryBatch* batch) {
  google::protobuf::RepeatedPtrField<v1::Sample> stored;
  std::vector<v1::Event> refusals;
  for (const v1::Sample& sample : batch->samples()) {
    const absl::Status put = store->PutSample(tenant, key.job_id(), key.attempt(), sample);
    if (put.ok()) {
      stored.Add()->set_attempt_sequence(sample.attempt_sequence());
    } else if (IsRefused(put)) {
      refusals.push_back(Refusal(sample, put, now));
    } else {
      return put;
    }
  }
  *batch->mutable_samples() = std::move(stored);
  if (refusals.empty()) {
    return absl::OkStatus();
  }
  for (v1::Event& refusal : refusals) {
    *batch->add_events() = std::move(refusal);
  }
  std::stable_sort(batch->mutable_events()->begin(), batch->mutable_events()->end(),
                   [](const v1::Event& a, const v1::Event& b) { return a.attempt_sequence() < b.attempt_sequence(); });
  return absl::OkStatus();
}

}  // namespace ampd::server
