#include "server/telemetry_follower.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace ampd::server {

void ListenTo(MetricStore::Options* store, TelemetryListener* listener) {
  store->on_stored = [listener](const StoredHistory& stored) { listener->OnStored(stored); };
  store->on_log_stored = [listener](const std::string& job, int32_t) { listener->OnLogStored(job); };
  store->on_skipped = [listener](const TelemetrySkip& skip) { listener->OnSkipped(skip); };
  store->on_group_written = [listener](absl::Duration time, bool ok) { listener->OnGroupWritten(time, ok); };
  store->on_read = [listener](absl::Duration time) { listener->OnRead(time); };
}

void TelemetryFollower::OnStored(const StoredHistory& stored) {
  progress_->Update(stored);
  hub_->PublishHistory(stored);
}

void TelemetryFollower::OnSkipped(const TelemetrySkip& skip) {
  metrics_->TelemetryRefused();
  LogFields fields = {{"job_id", skip.job},
                      {"attempt", int64_t{skip.attempt}},
                      {"first_sequence", absl::StrCat(skip.first_sequence)},
                      {"last_sequence", absl::StrCat(skip.last_sequence)},
                      {"detail", skip.why}};
  AddTrace(table_->TraceparentOf(skip.job), &fields);
  Log(spdlog::level::warn, "telemetry dropped", fields);
}

void TelemetryFollower::OnGroupWritten(absl::Duration time, bool ok) {
  metrics_->StoreWrite(time, ok);
  if (std::exchange(store_fails_, !ok) == ok) {
    ok ? Log(spdlog::level::info, "the metric store can be written again")
       : Log(spdlog::level::err, "the metric store can't be written: events wait, telemetry is sent again");
  }
}

}  // namespace ampd::server
