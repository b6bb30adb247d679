#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/formats/checkpoint_manifest.h"
#include "base/formats/safetensors.h"

namespace ampd::client {

// A checkpoint's folder on this machine, as a worker wrote it.
struct CheckpointFolder {
  std::string path;
  std::string manifest_sha256;  // what the server has recorded
  CheckpointManifest manifest;

  int64_t size_bytes() const;  // of the files that the manifest names
};

// FAILED_PRECONDITION when there is no manifest to read in it, DATA_LOSS when that is none.
absl::StatusOr<CheckpointFolder> OpenCheckpointFolder(const std::string& path);

// What is wrong with a file that the manifest names: missing, of another size or another SHA-256, no safetensors file
// though it is called so. Reads all of it. Empty: nothing.
std::string FindDamage(const CheckpointFolder& folder, const std::string& file);

// The header of a file of the folder, whose tensors are not read.
absl::StatusOr<SafetensorsHeader> ReadTensorTable(const CheckpointFolder& folder, const std::string& file);

struct ExportOptions {
  std::string destination;  // file
  bool replace = false;     // one that is there
  bool averages = false;    // of the parameters in place of them, where the optimizer kept some
};

struct ExportedModel {
  int64_t num_tensors = 0;
  int64_t size_bytes = 0;
};

// Writes the model's parameters and buffers, by the names of Python's state_dict and with {"format": "pt"} as metadata,
// which transformers asks for, to a safetensors file of its own: whole or not at all. Of an exported model what Python
// does not save is left out, and a tied parameter is there by each of its names. Verifies what it reads against the
// manifest before. DATA_LOSS for a damaged checkpoint, ALREADY_EXISTS, FAILED_PRECONDITION for averages that there are
// not and for a destination that can't be written.
absl::StatusOr<ExportedModel> ExportModel(const CheckpointFolder& folder, const ExportOptions& options);

}  // namespace ampd::client
