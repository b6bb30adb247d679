#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

// The manifest of a checkpoint, the file state.json in its folder:
//
//   manifest := {"version": 1, "identity": {"job", "attempt", "token"}, "environment": {...}, "step": n,
//                "state": {...}, "files": {name: {"sha256", "size_bytes"}}}, keys sorted
//   state hash := SHA-256 of {"files", "state", "step"} of the manifest, serialized in the same way
// `state` and the files hold the training state. `environment` describes where the checkpoint was saved.
namespace ampd {

struct CheckpointManifest {
  struct File {
    std::string sha256;
    int64_t size_bytes = 0;
  };
  std::string job_id;  // The job that saved the checkpoint.
  int32_t attempt = 0;
  std::string token;  // A digest of the attempt's token.
  int64_t step = 0;
  std::map<std::string, std::string> state;
  std::map<std::string, std::string> environment;
  std::map<std::string, File> files;  // Keyed by file name.
};

inline constexpr char kManifestFile[] = "state.json";
inline constexpr int64_t kMaxManifestBytes = 1 << 20;

std::string WriteManifest(const CheckpointManifest& manifest);

// Parses a manifest that WriteManifest wrote. Returns DATA_LOSS if `text` is not a manifest of this version with all of
// its fields, or if a file name leads out of the folder. Ignores unknown fields. The error message continues a sentence
// that begins with "state.json".
absl::StatusOr<CheckpointManifest> ParseManifest(std::string_view text);

std::string StateHash(const CheckpointManifest& manifest);

}  // namespace ampd
