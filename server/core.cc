#include "server/core.h"

#include <string>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace ampd::server {

Core::Core(const ServerConfig& config, const Storage& storage, StateListener* listener, JobTable* table,
           ProgressBoard* progress)
    : models({.open = [artifacts = storage.artifacts.get()](const std::string& artifact) -> absl::StatusOr<UniqueFd> {
        AMPD_ASSIGN_OR_RETURN(ArtifactStore::Content content, artifacts->OpenContent(Tenants::All(), artifact));
        return std::move(content.file);
      }}),
      coordinator(OptionsFor(config, storage, listener)),
      snapshotter(&coordinator.sessions(), table, progress, config.metrics_max_jobs) {}

CoordinatorOptions Core::OptionsFor(const ServerConfig& config, const Storage& storage, StateListener* listener) {
  CoordinatorOptions options;
  options.ledger = storage.ledger.get();
  options.clock = &SystemClock();
  options.random = &SystemRandom();
  options.listener = listener;
  options.models.hold_artifact = [artifacts = storage.artifacts.get()](const std::string& tenant,
                                                                       const std::string& artifact) {
    return artifacts->Hold(tenant, artifact);
  };
  options.models.read_model = [this](const std::string& artifact) { return models.Read(artifact); };
  options.lease = config.lease;
  options.lease_margin = config.lease_margin;
  options.suspend_limit = config.suspend_limit;
  options.local_checkpoint_wait = config.local_checkpoint_wait;
  options.archive_after = config.archive_after;
  options.retention = {config.retention, config.checkpoint_retention};
  options.worker_retention = config.worker_retention;
  return options;
}

}  // namespace ampd::server
