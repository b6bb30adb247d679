#pragma once

#include <cstdint>
#include <functional>
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
  std::string manifest_sha256;  // the digest that the server has recorded
  CheckpointManifest manifest;

  int64_t size_bytes() const;  // total size of the files that the manifest names
};

// Opens the checkpoint's folder at `path` and reads its manifest. NOT_FOUND if the folder has no manifest;
// INVALID_ARGUMENT if the manifest can't be read; DATA_LOSS if its content is invalid.
absl::StatusOr<CheckpointFolder> OpenCheckpointFolder(const std::string& path);

// Reads the whole `file`, which must be named in the manifest, and describes its damage: a missing file, a size or
// SHA-256 that differs from the manifest, or a .safetensors file with an invalid format. Returns "" if the file is
// intact. If `is_cancelled` is set and returns true between two pieces of the file, stops and returns "interrupted".
std::string FindDamage(const CheckpointFolder& folder, const std::string& file,
                       const std::function<bool()>& is_cancelled = nullptr);

// Reads the header of one of the folder's safetensors files, without the tensors.
absl::StatusOr<SafetensorsHeader> ReadTensorTable(const CheckpointFolder& folder, const std::string& file);

struct ExportOptions {
  std::string destination;  // the file to write
  bool replace = false;     // whether to overwrite an existing file
  bool averages = false;    // whether to export the parameters' averages, which some optimizers keep
  // Called between two pieces of the work. If it returns true, the export ends with CANCELLED. Null: it never ends so.
  std::function<bool()> is_cancelled = nullptr;
};

struct ExportedModel {
  int64_t num_tensors = 0;
  int64_t size_bytes = 0;
};

// Returns whether ExportModel reads this file of the checkpoint.
bool IsExported(const std::string& file, bool averages);

// Writes the model's parameters and buffers to a safetensors file, completely or not at all. Tensors have the names of
// Python's state_dict. The metadata is {"format": "pt"}, which transformers requires. For an exported model, tensors
// that Python does not save are omitted, and a tied parameter is written under each of its names. Verifies everything
// that it reads against the manifest. DATA_LOSS for a damaged checkpoint; ALREADY_EXISTS if the destination exists and
// `replace` is false, also if it appears during the export; FAILED_PRECONDITION if `averages` is set but the checkpoint
// has none, or if the destination can't be written.
absl::StatusOr<ExportedModel> ExportModel(const CheckpointFolder& folder, const ExportOptions& options);

}  // namespace ampd::client
