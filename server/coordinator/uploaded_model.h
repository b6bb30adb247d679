#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/exported/exported_program.h"

namespace ampd::server {

// The exported model (written by torch.export) that a spec names by its artifact.
struct UploadedModel {
  std::shared_ptr<void> artifact;                        // While it lives, the file is not deleted.
  std::shared_ptr<const graph::ExportedModel> exported;  // Null: the server did not read the model.
};

// Finds the uploaded models that specs name. Thread-safe if the functions of its options are.
class ModelFinder {
 public:
  struct Options {
    // Protects an uploaded artifact from deletion while the returned object lives. NOT_FOUND if the tenant has no
    // artifact with this name. Quick. May be null: then no artifact exists.
    std::function<absl::StatusOr<std::shared_ptr<void>>(const std::string& tenant, const std::string& artifact)>
        hold_artifact;
    // Reads the exported model in an uploaded artifact that is held. Returns null if the server does not read this
    // model, but leaves that to the worker; INVALID_ARGUMENT naming the field if the file is not a model. Blocks on the
    // disk. May be null: then models are accepted without reading them.
    std::function<absl::StatusOr<std::shared_ptr<const graph::ExportedModel>>(const std::string& artifact)> read_model;
  };
  explicit ModelFinder(Options options) : options_(std::move(options)) {}

  // Returns the artifact of the tenant that the spec names and its model, or two null pointers if the spec names no
  // artifact. Blocks as long as Options::read_model does. Errors: NOT_FOUND (ARTIFACT_NOT_FOUND), and those of
  // Options::read_model.
  absl::StatusOr<UploadedModel> Find(const std::string& tenant, const v1::ModelSpec& spec) const;

 private:
  const Options options_;
};

}  // namespace ampd::server
