#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/model_file.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/exported/exported_program.h"
#include "graph/heads.h"

namespace ampd::client {

// A question about a model that torch.export wrote.
struct ModelQuestion {
  int output = 0;                    // model.exported.output
  std::optional<graph::Head> head;   // model.exported.head; empty: derived from the output
  std::vector<std::string> presets;  // names of presets whose effect is described
  v1::Device device;                 // device for which the effect is described
  int64_t batch_size = 0;            // samples of a step whose memory is estimated; 0: not estimated
  int64_t sequence_length = 0;       // tokens of the job's texts, for a model with a free length; 0: not given
};

// Describes a model: its inputs and outputs, what it holds and computes, whether a job would accept it, and the effect
// of the policies. Its problems are those with which the trainer would fail, in the same words.
v1::ModelFile DescribeModel(const graph::ExportedModel& model, const ModelQuestion& question);

// Describes a .pt2 file on this machine, without reading the tensors' data. NOT_FOUND; DATA_LOSS naming the file if it
// is not an archive of torch.export; INTERNAL if the host can't read it.
absl::StatusOr<v1::ModelFile> InspectModelFile(const std::string& path, const ModelQuestion& question);

}  // namespace ampd::client
