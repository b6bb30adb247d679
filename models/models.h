#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

// The model zoo: the built-in models. Each is built from a job's model spec as a graph. Inputs and outputs depend on
// the kind of model:
//   image classifier   "images" (float32) -> "logits" (B, classes)
//   language model     "input_ids" (B, T), int64 -> "logits" (B, T, vocabulary)
//   text classifier    "input_ids" and further inputs (see the model's header) -> "logits" (B, classes)
//   GAN                "images" and "noise" -> one loss per network (graph/losses.h)
// Parameters have the names, order and initialisation of the torch.nn.Module shown in each builder's header.
namespace ampd::models {

// The name of the field that is set in ModelSpec, such as "lenet"; empty if none is set.
std::string KindOf(const v1::ModelSpec& spec);

// Whether the model is a GAN. A GAN computes its own losses, one per network (graph/losses.h), reads no labels and is
// not evaluated.
bool IsGan(const v1::ModelSpec& spec);

// Sets fields that are unset to the model's defaults. proto3 cannot distinguish unset from 0, so 0 means the default.
void FillDefaults(v1::ModelSpec& spec);

// The length in tokens of the sequences that a data source yields; 0 if its samples are not sequences.
int64_t SequenceLengthOf(const v1::DataSource& source);

// The data source over which the job mainly runs: data.predict for a job that predicts, otherwise data.train.
const v1::DataSource& MainSourceOf(const v1::JobSpec& spec);

// Builds the zoo's model that the spec describes, with defaults for unset fields. A text model is built for sequences
// of `sequence_length` tokens; 0 means the longest that it supports. Returns INVALID_ARGUMENT with one violation per
// wrong field. The fields' paths begin with "model."; for a length that the model does not support, the path is
// "data.train.tokens.sequence_length" or "data.train.jsonl.sequence_length". Returns UNIMPLEMENTED for an exported
// model.
absl::StatusOr<graph::Graph> BuildModel(const v1::ModelSpec& spec, int64_t sequence_length = 0);
// Builds the model of a job, for sequences of the length that the job's data has.
absl::StatusOr<graph::Graph> BuildModel(const v1::JobSpec& spec);

}  // namespace ampd::models
