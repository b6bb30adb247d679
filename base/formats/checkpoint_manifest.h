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
//   state hash := SHA-256 of {"files", "state", "step"} of the manifest, in the same writing
//
// `state` and the files are the training state; `environment` says where it was made.
namespace ampd {

struct CheckpointManifest {
  struct File {
    std::string sha256;
    int64_t size_bytes = 0;
  };
  std::string job_id;  // of the run that saved it
  int32_t attempt = 0;
  std::string token;  // a digest of the attempt's
  int64_t step = 0;
  std::map<std::string, std::string> state;
  std::map<std::string, std::string> environment;
  std::map<std::string, File> files;  // by name
};

inline constexpr char kManifestFile[] = "state.json";
inline constexpr int64_t kMaxManifestBytes = 1 << 20;

std::string WriteManifest(const CheckpointManifest& manifest);

// DATA_LOSS, with what follows "state.json" in a sentence, for anything that WriteManifest does not write, and for
// names of files that lead out of the folder.
absl::StatusOr<CheckpointManifest> ParseManifest(std::string_view text);

std::string StateHash(const CheckpointManifest& manifest);

}  // namespace ampd
