#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/artifacts/artifact_store.h"
#include "server/audit/audit_log.h"
#include "server/data_directory.h"
#include "server/ledger/ledger.h"
#include "server/server_config.h"
#include "server/telemetry/metric_store.h"
#include "server/telemetry_follower.h"
#include "server/tokens/token_store.h"

namespace ampd::server {

// The parts of the server that store data in its data directory. Thread-compatible; the parts are thread-safe.
struct Storage {
  // Functions with which the stores ask the rest of the server. The stores call them only after their Start, on their
  // own threads.
  struct Answers {
    TelemetryListener* telemetry = nullptr;  // Outlives the stores.
    std::function<std::optional<int64_t>(const std::string& tenant)> tenant_quota;
    std::function<std::map<std::string, std::string>()> live_uploads;
    std::function<bool(const std::string& job)> job_exists;
    std::function<bool()> clock_is_steady;
  };

  // Prepares the data directory and opens all stores in it, without starting their threads. After an error, some of the
  // stores may be open.
  absl::Status Open(const ServerConfig& config, const Answers& answers);

  std::unique_ptr<MetricStore> store;
  std::unique_ptr<ArtifactStore> artifacts;
  std::unique_ptr<TokenStore> tokens;
  std::unique_ptr<AuditLog> audit;
  std::unique_ptr<Ledger> ledger;
  std::optional<FolderWatch> folder;
  bool is_lost = false;  // Whether the data directory is gone. Used only by the ticker.

 private:
  absl::Status OpenLedger(const ServerConfig& config);
  absl::Status OpenArtifacts(const ServerConfig& config, const Answers& answers);
};

}  // namespace ampd::server
