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

// Reads the programs of exported models among the uploaded files, so that it is known what a job needs, and what a
// trainer would refuse, before a worker has the file. The content of their tensors is not read, but for constants of
// two programs.
//
// A file comes from outside. One of more JSON than Options::max_json_bytes, or of more nodes or tensors than models
// have, is left to the worker, which risks only itself; and one file is read at a time, so that the memory that reading
// takes (ten times its JSON, and thirty times where it is made for that) is there once. What was read is kept, the
// latest first, so that a hundred jobs of one model read it once. Thread-safe.
class UploadedModels {
 public:
  struct Options {
    // The content of an uploaded file, for reading alone. May block.
    std::function<absl::StatusOr<UniqueFd>(const std::string& artifact)> open;
    int64_t max_json_bytes = int64_t{16} << 20;   // of one model
    int64_t kept_json_bytes = int64_t{32} << 20;  // of all that are kept
  };
  explicit UploadedModels(Options options) : options_(std::move(options)) {}

  // The model in the artifact, without ExportedModel::json; null for one that is left to the worker. Blocks on the
  // disk, and while another is read. REQUIRES: the caller knows that the artifact is there.
  //   INVALID_ARGUMENT  model.exported.artifact: what is wrong with the file, in the trainer's words
  //   UNAVAILABLE       the host can't read it now (ARTIFACT_UNREADABLE)
  //   what Options::open says
  absl::StatusOr<std::shared_ptr<const graph::ExportedModel>> Read(const std::string& artifact);

 private:
  using ModelPtr = std::shared_ptr<const graph::ExportedModel>;
  struct Kept {
    std::string artifact;
    ModelPtr model;  // null: left to the worker
    int64_t weight_bytes = 0;
  };

  absl::StatusOr<Kept> ReadFile(const std::string& artifact) const;
  std::list<Kept>::const_iterator Find(const std::string& artifact) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(Kept kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  absl::Mutex mutex_;
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Kept> kept_ ABSL_GUARDED_BY(mutex_);  // the latest used first
  int64_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ampd::server
