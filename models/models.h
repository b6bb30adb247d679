#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

// The model zoo: builders from a job's model spec to a graph. Inputs and outputs depend on the kind of model:
//   image classifier   "images" (float32) -> "logits" (B, classes)
//   language model     "input_ids" (B, T), int64 -> "logits" (B, T, vocabulary)
//   text classifier    "input_ids" and further inputs, see its header -> "logits" (B, classes)
//   GAN                "images" and "noise" -> one loss per network (graph/losses.h)
// Parameters have the names, order and initialisation of the torch.nn.Module shown in each builder's header.
namespace ampd::models {

// The name of the model's field in ModelSpec, such as "lenet"; empty if none is set.
std::string KindOf(const v1::ModelSpec& spec);

// Whether the model is a GAN, trained by several losses of its own (graph/losses.h): it reads no labels and is not
// evaluated.
bool IsGan(const v1::ModelSpec& spec);

// Sets fields that are unset to the model's defaults. proto3 cannot distinguish unset from 0, so 0 means the default.
void FillDefaults(v1::ModelSpec& spec);

// Length of the sequences from a source; 0 if it has none.
int64_t SequenceLengthOf(const v1::DataSource& source);

// Any of the zoo's models, with its defaults. A text model is built over sequences of `sequence_length`; 0: its
// longest. Returns INVALID_ARGUMENT with one violation per wrong field; paths begin with "model.", or, for a length
// that the model does not support, are "data.train.tokens.sequence_length" or that of jsonl. Returns UNIMPLEMENTED for
// an exported model.
absl::StatusOr<graph::Graph> BuildModel(const v1::ModelSpec& spec, int64_t sequence_length = 0);
// The model as the job trains it.
absl::StatusOr<graph::Graph> BuildModel(const v1::JobSpec& spec);

}  // namespace ampd::models
