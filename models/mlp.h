#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

namespace ampd::models {

// A multi-layer perceptron with the parameter names and initialisation of this torch.nn.Module:
//
//   layers = Sequential(for each hidden: Linear(in, hidden), ReLU(); Linear(in, num_classes))
//   forward(images): layers(flatten(images, 1))
//
// Input "images" (B, in_features); output "logits" (B, num_classes).

// Sets the unset fields of the spec to their defaults.
void FillDefaults(v1::MlpSpec& spec);

// Returns INVALID_ARGUMENT with one violation per wrong field; paths begin with "model.mlp".
absl::StatusOr<graph::Graph> BuildMlp(const v1::MlpSpec& spec);

}  // namespace ampd::models
