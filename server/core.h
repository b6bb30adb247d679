#pragma once

#include "server/artifacts/uploaded_models.h"
#include "server/coordinator/coordinator.h"
#include "server/monitoring/job_table.h"
#include "server/monitoring/metrics_snapshotter.h"
#include "server/server_config.h"
#include "server/storage.h"
#include "server/telemetry/progress.h"

namespace ampd::server {

// The coordinator, the reader of uploaded models, and the object that takes the snapshots of jobs and workers for
// /metrics.
struct Core {
  // REQUIRES: the storage is open, and all arguments except `config` outlive the object.
  Core(const ServerConfig& config, const Storage& storage, StateListener* listener, JobTable* table,
       ProgressBoard* progress);

  UploadedModels models;
  Coordinator coordinator;
  MetricsSnapshotter snapshotter;

 private:
  CoordinatorOptions OptionsFor(const ServerConfig& config, const Storage& storage, StateListener* listener);
};

}  // namespace ampd::server
