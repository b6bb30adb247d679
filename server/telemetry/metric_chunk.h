#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ampd/v1/worker_service.pb.h"

// How points and log text rest in the metric store: one zstd frame whose content size is recorded, holding a
// serialized ampd.v1.TelemetryBatch without events (points) or the text itself (logs).
namespace ampd::server {

std::string Compress(std::string_view bytes);
// DATA_LOSS when `frame` is no such frame, or larger than 64 MiB.
absl::StatusOr<std::string> Decompress(std::string_view frame);

std::string EncodePoints(const v1::TelemetryBatch& batch);
absl::StatusOr<v1::TelemetryBatch> DecodePoints(std::string_view chunk);

}  // namespace ampd::server
