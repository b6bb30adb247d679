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

// A model that torch.export wrote, as an attempt trains it.
struct ImportedModel {
  graph::Graph train;
  graph::Graph eval;                  // with the same state
  std::string json;                   // what a checkpoint keeps of it, beside the state
  executor::TensorMap state;          // its parameters and buffers; empty when it is a checkpoint's
  graph::SavedNames names;            // of these, as Python saves them
  std::vector<std::string> warnings;  // of what may not be meant
};

// The file of a checkpoint that holds ImportedModel::json.
inline constexpr char kGraphFile[] = "graph.json";

// From a .pt2 file, for texts of `sequence_length` (0: the job has none). DATA_ERROR naming the file for what is wrong
// with it, DEVICE_ERROR where the host can't read it now, SPEC_ERROR for a model that the spec's head does not fit.
absl::StatusOr<ImportedModel> OpenImportedModel(const v1::ExportedModelSpec& spec, const data::DataFile& file,
                                                int64_t sequence_length = 0);

// From the checkpoint that the attempt goes on from: the file is not needed any more. CHECKPOINT_ERROR.
absl::StatusOr<ImportedModel> RestoreImportedModel(const v1::ExportedModelSpec& spec, const CheckpointStore& store,
                                                   const std::string& path, const std::string& manifest_sha256,
                                                   int64_t sequence_length = 0);

}  // namespace ampd::train
