#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ampd/v1/worker_service.pb.h"

// The storage format of metric points and log text in the metric store: one zstd frame, with the size of its content
// recorded. The content is a serialized ampd.v1.TelemetryBatch without events (for points), or the text itself (for
// logs).
namespace ampd::server {

std::string Compress(std::string_view bytes);
// Returns the content of a frame. DATA_LOSS if `frame` does not have this format, or its content is larger than 64 MiB.
absl::StatusOr<std::string> Decompress(std::string_view frame);

// Convert metric points to the storage format and back. If an earlier version of the server stored the points, they may
// lack columns that exist today; DecodePoints adds those (points::CompleteColumns).
std::string EncodePoints(const v1::TelemetryBatch& batch);
absl::StatusOr<v1::TelemetryBatch> DecodePoints(std::string_view chunk);

}  // namespace ampd::server
