#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "server/artifacts/artifact_store.h"

namespace ampd::server {

// Puts the samples of an attempt's telemetry into the artifact store and leaves of each nothing but its sequence, which
// counts among the others of the batch. In place of one that can't be kept, because it is malformed or the quota or the
// disk is full, the batch gets an event TELEMETRY_REFUSED of the same sequence: what else is in the batch goes on, and
// nobody sends the sample again.
//
// An error (a disk that fails, most likely) leaves the batch as it was: it is to be sent again. Blocks on the disk.
absl::Status StoreSamples(const v1::AttemptKey& key, absl::Time now, ArtifactStore* store, v1::TelemetryBatch* batch);

}  // namespace ampd::server
