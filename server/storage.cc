#include "server/storage.h"

#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "server/ledger/sqlite_journal.h"

namespace ampd::server {

absl::Status Storage::Open(const ServerConfig& config, const Answers& answers) {
  AMPD_ASSIGN_OR_RETURN(
      const std::vector<std::string> lines,
      PrepareDataDirectory(config.data_dir, !config.grants.empty() && IsIn(config.data_dir, config.socket)));
  for (const std::string& line : lines) {
    Log(spdlog::level::warn, line);
  }
  // The journal is opened first: its lock excludes other servers, and it shows whether a much newer server wrote the
  // data directory. Opening the other stores changes their files.
  AMPD_RETURN_IF_ERROR(OpenLedger(config));
  MetricStore::Options metric_store;
  metric_store.path = config.data_dir + "/metrics.db";
  metric_store.clock = &SystemClock();
  ListenTo(&metric_store, answers.telemetry);
  AMPD_ASSIGN_OR_RETURN(store, MetricStore::Open(std::move(metric_store)));
  AMPD_RETURN_IF_ERROR(OpenArtifacts(config, answers));
  AMPD_ASSIGN_OR_RETURN(
      tokens,
      TokenStore::Open({.path = config.data_dir + "/tokens.db", .clock = &SystemClock(), .random = &SystemRandom()}));
  AMPD_ASSIGN_OR_RETURN(audit, AuditLog::Open({.path = config.data_dir + "/audit.log"}));
  AMPD_ASSIGN_OR_RETURN(folder,
                        FolderWatch::Of(config.data_dir, {"journal.db", "metrics.db", "artifacts.db", "tokens.db"}));
  return absl::OkStatus();
}

absl::Status Storage::OpenLedger(const ServerConfig& config) {
  SqliteJournal::Options journal;
  journal.data_dir = config.data_dir;
  journal.min_free_bytes = config.min_free_bytes;
  journal.reserve_bytes = config.reserve_bytes;
  Ledger::Options options;
  AMPD_ASSIGN_OR_RETURN(options.journal, SqliteJournal::Open(journal));
  options.flush_events = [this] { return store->Flush(); };  // The ledger calls it only after its Start.
  AMPD_ASSIGN_OR_RETURN(ledger, Ledger::Open(std::move(options)));
  return absl::OkStatus();
}

absl::Status Storage::OpenArtifacts(const ServerConfig& config, const Answers& answers) {
  ArtifactStore::Options options;
  options.folder = config.data_dir + "/artifacts";
  options.index_path = config.data_dir + "/artifacts.db";
  options.clock = &SystemClock();
  options.quota_bytes = config.artifact_quota_bytes;
  options.tenant_quota = answers.tenant_quota;
  options.min_free_bytes = config.min_free_bytes;
  options.retention = config.artifact_retention;
  options.live_uploads = answers.live_uploads;
  options.job_exists = answers.job_exists;
  options.clock_is_steady = answers.clock_is_steady;
  options.on_repair = [](const std::string& what, const std::string& artifact) {
    Log(spdlog::level::warn, what, {{"artifact", artifact}});
  };
  options.on_sweep_failed = [](const absl::Status& status) {
    Log(spdlog::level::warn, "the sweep of the artifacts failed", {{"detail", std::string(status.message())}});
  };
  AMPD_ASSIGN_OR_RETURN(artifacts, ArtifactStore::Open(std::move(options)));
  return absl::OkStatus();
}

}  // namespace ampd::server
