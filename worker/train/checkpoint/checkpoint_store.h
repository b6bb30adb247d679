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

// Name of the checkpoint file that holds the model's parameters and buffers.
inline constexpr char kModelFile[] = "model.safetensors";

// The content of a checkpoint. `state` and `files` hold the training state; `environment` describes where the
// checkpoint was made.
struct CheckpointContent {
  struct File {
    std::string name;                     // "model.safetensors"
    std::vector<std::string_view> parts;  // The file's content in pieces, not owned.
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
  std::string path;  // Path below the root: "<job>/<attempt>/step-<n>".
  int64_t size_bytes = 0;
  std::string manifest_sha256;
  std::string state_hash;
};

struct LoadedCheckpoint {
  std::string job_id;  // The job that saved the checkpoint.
  int64_t step = 0;
  std::map<std::string, std::string> state;
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> files;  // Content of each file, by name.
  std::string state_hash;
};

// If the error means that a checkpoint is missing or damaged, returns the path of that checkpoint; otherwise returns an
// empty string.
std::string DamagedCheckpoint(const absl::Status& status);

// The file operations of a checkpoint. Virtual, so that a test can make each of them fail.
class CheckpointIo {
 public:
  virtual ~CheckpointIo() = default;
  virtual absl::Status MakeFolders(const std::string& path);
  virtual absl::Status WriteFile(const std::string& path, const std::vector<std::string_view>& parts);  // Also syncs.
  virtual absl::Status SyncFolder(const std::string& path);
  virtual absl::Status Rename(const std::string& from, const std::string& to);
  virtual absl::Status RemoveAll(const std::string& path);
};

// Stores checkpoints below one root:
//
//   <root>/<job>/<attempt>/step-<n>/          complete: renamed into place after all of its content was synced
//       model.safetensors  optimizer.safetensors
//       graph.json          for an imported model (graph/exported/exported_program.h)
//       state.json          the manifest (base/formats/checkpoint_manifest.h)
//   <root>/<job>/<attempt>/.step-<n>.tmp/     being written or left over; never loaded, removed by the job's next save
//
// The agent removes complete checkpoints, and everything of a deleted job, when the server orders it. Errors have the
// reason DISK_FULL or CHECKPOINT_ERROR and contain no path of the host. If DamagedCheckpoint returns a path for an
// error, only that checkpoint is damaged, and loading another one may succeed. Thread-compatible.
class CheckpointStore {
 public:
  // `io` outlives the store.
  CheckpointStore(std::string root, CheckpointIo& io) : root_(std::move(root)), io_(io) {}

  // Saves a checkpoint, which is durable when Save returns. The files are hashed on separate threads while they are
  // written. Writes nothing if this checkpoint is already stored with the same content.
  absl::StatusOr<SavedCheckpoint> Save(const CheckpointContent& content);

  // Reads the checkpoint and verifies every byte. `manifest_sha256`: the hash recorded when it was saved.
  absl::StatusOr<LoadedCheckpoint> Load(const std::string& path, const std::string& manifest_sha256) const;
  // Reads and verifies one file of a checkpoint.
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
