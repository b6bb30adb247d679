#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "server/artifacts/artifact_store.h"

namespace ampd::server {

// Moves the samples of an attempt's telemetry into the artifact store. In the batch only the sequence of each sample
// remains, because it counts among the other sequences. A sample that cannot be kept, because it is malformed or the
// quota or the disk is full, is replaced by an event TELEMETRY_REFUSED of the same sequence. The rest of the batch is
// stored as usual, and nobody sends the sample again.
//
// On any other error, most likely of the disk, the batch is unchanged and must be sent again. Blocks on the disk.
absl::Status StoreSamples(const v1::AttemptKey& key, absl::Time now, ArtifactStore* store, v1::TelemetryBatch* batch);

}  // namespace ampd::server
