#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/formats/checkpoint_manifest.h"

namespace ampd::train {

// The file of a checkpoint that holds the model's parameters and buffers.
inline constexpr char kModelFile[] = "model.safetensors";

// What a checkpoint is made of. `state` and the files are the training state; `environment` says where it was made.
struct CheckpointContent {
  struct File {
    std::string name;                     // "model.safetensors"
    std::vector<std::string_view> parts;  // of its content, not owned
  };
  std::string job_id;
  int32_t attempt = 0;
  std::string token;
  int64_t step = 0;
  std::map<std::string, std::string> state;
  std::map<std::string, std::string> environment;
  std::vector<File> files;
};

struct SavedCheckpoint {
  std::string path;  // below the root: "<job>/<attempt>/step-<n>"
  int64_t size_bytes = 0;
  std::string manifest_sha256;
  std::string state_hash;
};

struct LoadedCheckpoint {
  std::string job_id;  // of the run that saved it
  int64_t step = 0;
  std::map<std::string, std::string> state;
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> files;  // name to content
  std::string state_hash;
};

// The path of the checkpoint that could not be loaded as it was recorded; empty for any other error.
std::string DamagedCheckpoint(const absl::Status& status);

// The file operations under a checkpoint, so that each can be made to fail.
class CheckpointIo {
 public:
  virtual ~CheckpointIo() = default;
  virtual absl::Status MakeFolders(const std::string& path);
  virtual absl::Status WriteFile(const std::string& path, const std::vector<std::string_view>& parts);  // and sync
  virtual absl::Status SyncFolder(const std::string& path);
  virtual absl::Status Rename(const std::string& from, const std::string& to);
  virtual absl::Status RemoveAll(const std::string& path);
};

// Checkpoints below one root:
//
//   <root>/<job>/<attempt>/step-<n>/          whole: it was renamed into place after everything in it was synced
//       model.safetensors  optimizer.safetensors
//       graph.json          of an imported model (graph/exported/exported_program.h)
//       state.json          the manifest (base/formats/checkpoint_manifest.h)
//   <root>/<job>/<attempt>/.step-<n>.tmp/     being written or left over; never loaded, removed by the job's next save
//
// The agent removes whole ones, and all that there is of a deleted job, when the server says so. Errors have the reason
// DISK_FULL or CHECKPOINT_ERROR and no path of the host; DamagedCheckpoint tells which of them another checkpoint may
// not have. Thread-compatible.
class CheckpointStore {
 public:
  // `io` outlives the store.
  CheckpointStore(std::string root, CheckpointIo& io) : root_(std::move(root)), io_(io) {}

  // Durable when it returns. What each file hashes to is found on a thread of its own while they
  // are written. Saving the same
  // step of the same attempt again changes nothing if the content is the same.
  absl::StatusOr<SavedCheckpoint> Save(const CheckpointContent& content);

  // Reads and verifies every byte against `manifest_sha256`, that of the recorded checkpoint.
  absl::StatusOr<LoadedCheckpoint> Load(const std::string& path, const std::string& manifest_sha256) const;
  // One of its files alone, verified as all of them.
  absl::StatusOr<std::string> LoadFile(const std::string& path, const std::string& manifest_sha256,
                                       const std::string& name) const;

 private:
  void RemoveLeftovers(const std::string& job_id);
  absl::Status MakeDurable(const CheckpointContent& content, const std::string& temporary,
                           const std::function<std::string()>& manifest);
  absl::StatusOr<CheckpointManifest> LoadManifest(const std::string& path, const std::string& manifest_sha256) const;
  absl::StatusOr<std::string> LoadFile(const std::string& path, const std::string& name,
                                       const CheckpointManifest::File& file) const;

  const std::string root_;
  CheckpointIo& io_;
};

}  // namespace ampd::train
