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

// What a user wants to know about a model that torch.export wrote.
struct ModelQuestion {
  int output = 0;                    // which output is used; as model.exported.output in a job file
  std::optional<graph::Head> head;   // as model.exported.head; empty: derived from the output
  std::vector<std::string> presets;  // names of the presets whose effect to describe
  v1::Device device;                 // device on which the presets would run
  int64_t batch_size = 0;            // batch size for which to estimate the memory of a step; 0: no estimate
  int64_t sequence_length = 0;       // tokens in each text, for a model that accepts any length; 0: not given
};

// Describes a model: its inputs and outputs, its tensors and operations, whether a job would accept it, and the effect
// of the policies. Problems have the wording of the trainer's errors.
v1::ModelFile DescribeModel(const graph::ExportedModel& model, const ModelQuestion& question);

// Reads a .pt2 file on this machine, verifies the content of its tensors, and describes the model. NOT_FOUND if there
// is no such file; DATA_LOSS, with a message that names the file, if it is not an intact archive of torch.export;
// INTERNAL if the host can't read it.
absl::StatusOr<v1::ModelFile> InspectModelFile(const std::string& path, const ModelQuestion& question);

}  // namespace ampd::client
