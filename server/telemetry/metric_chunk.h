#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ampd/v1/worker_service.pb.h"

// The storage format of points and log text in the metric store: one zstd frame with its content size recorded. It
// holds a serialized ampd.v1.TelemetryBatch without events (points) or the text itself (logs).
namespace ampd::server {

std::string Compress(std::string_view bytes);
// DATA_LOSS when `frame` does not have this format, or its content is larger than 64 MiB.
absl::StatusOr<std::string> Decompress(std::string_view frame);

// Convert points to the storage format and back. If an earlier version of the server stored the points without columns
// that exist today, DecodePoints adds them (points::CompleteColumns).
std::string EncodePoints(const v1::TelemetryBatch& batch);
absl::StatusOr<v1::TelemetryBatch> DecodePoints(std::string_view chunk);

}  // namespace ampd::server
