#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

// The model zoo: builders from a job's model spec to a graph with the input "images" (float32) and the output "logits"
// (B, classes); of a language model "input_ids" (B, T), int64, and (B, T, vocabulary); of a classifier of texts
// "input_ids" and what its header says beside, and (B, classes); of a GAN "images" and "noise", and a loss for each of
// its networks (graph/losses.h). Parameters have the names, order and initialisation of the torch.nn.Module shown at
// each builder, in a header of its own.
namespace ampd::models {

// The name of the model's field in ModelSpec, "lenet"; empty while none is set.
std::string KindOf(const v1::ModelSpec& spec);

// Whether the model is trained by several losses of its own (graph/losses.h), a GAN: it reads no labels, and is not
// evaluated.
bool IsGan(const v1::ModelSpec& spec);

// Sets what is left to the model; proto3 cannot tell a number that was not set from 0, which means the default.
void FillDefaults(v1::ModelSpec& spec);

// How long the sequences are that a source gives; 0 where it gives none.
int64_t SequenceLengthOf(const v1::DataSource& source);

// Any of the zoo's models, with its defaults; one that takes texts over sequences of one length, 0: its longest.
// INVALID_ARGUMENT with one violation a wrong field, paths beginning with "model.", or of a length that the model does
// not take "data.train.tokens.sequence_length", or that of jsonl; for an exported model, UNIMPLEMENTED.
absl::StatusOr<graph::Graph> BuildModel(const v1::ModelSpec& spec, int64_t sequence_length = 0);
// The model as the job trains it.
absl::StatusOr<graph::Graph> BuildModel(const v1::JobSpec& spec);

}  // namespace ampd::models
