#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/io/file.h"
#include "graph/exported/exported_program.h"

namespace ampd::server {

// Reads the programs of exported models from uploaded files. The server then knows, before a worker has the file, what
// a job needs and whether a trainer would refuse the model. It does not read the content of tensors, except for the
// constants of an exported model's two programs.
//
// Files are untrusted. If a file has more JSON than Options::max_json_bytes, or more nodes or tensors than real models
// have, the server does not read it and leaves the check to the worker. Only one file is read at a time, because
// reading takes ten times the size of its JSON in memory, and thirty times for a malicious file. Recently used results
// are cached, so that a hundred jobs of one model read it once. Thread-safe.
class UploadedModels {
 public:
  struct Options {
    // Opens the content of an uploaded file, read-only. May block.
    std::function<absl::StatusOr<UniqueFd>(const std::string& artifact)> open;
    int64_t max_json_bytes = int64_t{16} << 20;   // Limit for one model.
    int64_t kept_json_bytes = int64_t{32} << 20;  // Limit for all cached models together.
  };
  explicit UploadedModels(Options options) : options_(std::move(options)) {}

  // Returns the model in the artifact, without ExportedModel::json. Returns null if the server leaves the check of the
  // model to the worker. Blocks on the disk, and while another model is read. REQUIRES: the caller knows that the
  // artifact exists.
  //
  //   INVALID_ARGUMENT  model.exported.artifact: what is wrong with the file, in the trainer's words
  //   UNAVAILABLE       the host can't read the file now (ARTIFACT_UNREADABLE)
  //   errors of Options::open
  absl::StatusOr<std::shared_ptr<const graph::ExportedModel>> Read(const std::string& artifact);

 private:
  using ModelPtr = std::shared_ptr<const graph::ExportedModel>;
  struct Kept {
    std::string artifact;
    ModelPtr model;  // Null: the check is left to the worker.
    int64_t weight_bytes = 0;
  };

  absl::StatusOr<Kept> ReadFile(const std::string& artifact) const;
  std::list<Kept>::const_iterator Find(const std::string& artifact) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(Kept kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  absl::Mutex mutex_;
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Kept> kept_ ABSL_GUARDED_BY(mutex_);  // Most recently used first.
  int64_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ampd::server
