#include "server/telemetry/metric_chunk.h"

#include <zstd.h>

#include "base/error.h"
#include "base/status_macros.h"
#include "points/step_columns.h"

namespace ampd::server {
namespace {

constexpr unsigned long long kMaxContentBytes = 64ull << 20;
constexpr int kLevel = 1;  // Metric points shrink to about a quarter at any level; higher levels only cost time.

absl::Status Damaged() {
  return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", "a chunk of the metric store is damaged");
}

}  // namespace

std::string Compress(std::string_view bytes) {
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), kLevel));
  return frame;
}

absl::StatusOr<std::string> Decompress(std::string_view frame) {
  unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  // zstd returns its two error values as the largest integers, so this check detects them, too.
  if (size > kMaxContentBytes) {
    return Damaged();
  }
  std::string bytes(size, '\0');
  if (ZSTD_decompress(bytes.data(), bytes.size(), frame.data(), frame.size()) != size) {
    return Damaged();
  }
  return bytes;
}

std::string EncodePoints(const v1::TelemetryBatch& batch) { return Compress(batch.SerializeAsString()); }

absl::StatusOr<v1::TelemetryBatch> DecodePoints(std::string_view chunk) {
  AMPD_ASSIGN_OR_RETURN(std::string bytes, Decompress(chunk));
  v1::TelemetryBatch batch;
  if (!batch.ParseFromString(bytes)) {
    return Damaged();
  }
  if (batch.has_steps()) {
    points::CompleteColumns(batch.mutable_steps());
    if (!points::CheckSteps(batch.steps()).ok()) {
      return Damaged();
    }
  }
  return batch;
}

}  // namespace ampd::server
