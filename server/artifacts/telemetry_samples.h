#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "server/artifacts/artifact_store.h"

namespace ampd::server {

// Moves the samples in a batch of telemetry into the artifact store. In the batch each sample keeps only its sequence,
// because sequences must have no gaps. A sample that cannot be kept, because it is malformed or the quota or the disk
// is full, is replaced by an event TELEMETRY_REFUSED with the sample's sequence. The rest of the batch is stored as
// usual, and the worker does not send the sample again.
//
// On any other error, most likely of the disk, the batch is unchanged and must be sent again. Blocks on the disk.
absl::Status StoreSamples(const std::string& tenant, const v1::AttemptKey& key, absl::Time now, ArtifactStore* store,
                          v1::TelemetryBatch* batch);

}  // namespace ampd::server
