#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

namespace ampd::models {

// A small convolutional network after LeCun's LeNet, with the parameter names and initialisation of this
// torch.nn.Module:
//
//   features = Sequential(for each width: Conv2d(in, width, 3, padding=1), ReLU(), MaxPool2d(2))
//   classifier = Sequential(Linear(flattened, hidden), ReLU(), Linear(hidden, num_classes))
//   forward(images): classifier(flatten(features(images), 1))
//
// Input "images" (B, in_channels, image_size, image_size); output "logits" (B, num_classes).

// Sets the unset fields of the spec to their defaults.
void FillDefaults(v1::LenetSpec& spec);

// Returns INVALID_ARGUMENT with one violation per wrong field; paths begin with "model.lenet".
absl::StatusOr<graph::Graph> BuildLenet(const v1::LenetSpec& spec);

}  // namespace ampd::models
