#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "data/data_file.h"
#include "graph/exported/exported_program.h"
#include "graph/graph.h"
#include "worker/executor/executor.h"
#include "worker/train/checkpoint/checkpoint_store.h"

namespace ampd::train {

// A model written by torch.export, in the form that an attempt trains.
struct ImportedModel {
  graph::Graph train;
  graph::Graph eval;                  // For evaluations; has the same state as `train`.
  std::string json;                   // The model as JSON, which checkpoints contain in addition to the state.
  executor::TensorMap state;          // Parameters and buffers; empty if they come from a checkpoint.
  graph::SavedNames names;            // Names of the state's tensors, as Python saves them.
  std::vector<std::string> warnings;  // Things in the model that may be unintended.
};

// Name of the checkpoint file that holds ImportedModel::json.
inline constexpr char kGraphFile[] = "graph.json";

// Opens a .pt2 file. `sequence_length`: the length of the job's texts; 0: the job has no texts. Errors: DATA_ERROR,
// with the file's name, for a fault in the file; DEVICE_ERROR if the host can't read the file now; SPEC_ERROR if the
// model does not fit the spec's head.
absl::StatusOr<ImportedModel> OpenImportedModel(const v1::ExportedModelSpec& spec, const data::DataFile& file,
                                                int64_t sequence_length = 0);

// Restores the model from the checkpoint that the attempt resumes from; the .pt2 file is no longer needed.
// CHECKPOINT_ERROR if that fails.
absl::StatusOr<ImportedModel> RestoreImportedModel(const v1::ExportedModelSpec& spec, const CheckpointStore& store,
                                                   const std::string& path, const std::string& manifest_sha256,
                                                   int64_t sequence_length = 0);

}  // namespace ampd::train
