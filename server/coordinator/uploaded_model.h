#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/exported/exported_program.h"

namespace ampd::server {

// The exported model (a file of torch.export) in the artifact that a spec names.
struct UploadedModel {
  std::shared_ptr<void> artifact;                        // The file is not deleted while this object lives.
  std::shared_ptr<const graph::ExportedModel> exported;  // Null: the server did not read the model.
};

// Finds the uploaded models that specs name. Thread-safe if the functions of its options are.
class ModelFinder {
 public:
  struct Options {
    // Returns an object that protects an uploaded artifact from deletion as long as the object lives. NOT_FOUND if the
    // tenant has no artifact with this name. Must be quick. If this function is null, no artifacts exist.
    std::function<absl::StatusOr<std::shared_ptr<void>>(const std::string& tenant, const std::string& artifact)>
        hold_artifact;
    // Reads the exported model in an uploaded artifact that is protected from deletion. Returns null if the server
    // leaves the check of this model to the worker. INVALID_ARGUMENT naming the field if the file is not a model.
    // Blocks on the disk. If this function is null, models are accepted without reading them.
    std::function<absl::StatusOr<std::shared_ptr<const graph::ExportedModel>>(const std::string& artifact)> read_model;
  };
  explicit ModelFinder(Options options) : options_(std::move(options)) {}

  // Returns the tenant's artifact that the spec names, and the model in it; two null pointers if the spec names no
  // artifact. Blocks as long as Options::read_model does. Errors: NOT_FOUND (ARTIFACT_NOT_FOUND), and those of
  // Options::read_model.
  absl::StatusOr<UploadedModel> Find(const std::string& tenant, const v1::ModelSpec& spec) const;

 private:
  const Options options_;
};

}  // namespace ampd::server
