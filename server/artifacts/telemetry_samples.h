#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "server/artifacts/artifact_store.h"

namespace ampd::server {

// Moves the generated samples in a batch of telemetry into the artifact store. In the batch each sample keeps only its
// sequence number, because sequence numbers must have no gaps. If a sample is malformed, or the quota or the disk is
// full, an event TELEMETRY_REFUSED with the sample's sequence number replaces the sample. The rest of the batch is
// processed as usual, and the worker does not send the sample again.
//
// After any other error, most likely of the disk, the batch is unchanged, and the worker must send it again. Blocks on
// the disk.
absl::Status StoreSamples(const std::string& tenant, const v1::AttemptKey& key, absl::Time now, ArtifactStore* store,
                          v1::TelemetryBatch* batch);

}  // namespace ampd::server
