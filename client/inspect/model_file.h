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

// What is asked of a model that torch.export wrote.
struct ModelQuestion {
  int output = 0;                    // model.exported.output
  std::optional<graph::Head> head;   // model.exported.head; nothing: told by the output
  std::vector<std::string> presets;  // names of presets, to say of each what it would do
  v1::Device device;                 // that it would do it on
  int64_t batch_size = 0;            // samples, to say what memory a step would take; 0: not asked
  int64_t sequence_length = 0;       // of the job's texts, for a model that leaves it open; 0: none is told
};

// All there is to say of a model: what it takes and gives, holds and computes, whether a job would take it, and what
// the policies would do to it. Its problems are those that the trainer would fail with, in its words.
v1::ModelFile DescribeModel(const graph::ExportedModel& model, const ModelQuestion& question);

// The same of a .pt2 file on this machine; what it holds in tensors is not read. NOT_FOUND; DATA_LOSS naming the file
// for one that is no archive of torch.export; INTERNAL where the host can't read it.
absl::StatusOr<v1::ModelFile> InspectModelFile(const std::string& path, const ModelQuestion& question);

}  // namespace ampd::client
