#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

namespace ampd::models {

// Hugging Face transformers' GPT2LMHeadModel, with the same parameter names and initialisation. Letters: B batch, T
// sequence_length, C n_embd, P n_positions, V vocab_size.
//
//   transformer = {wte: Embedding(V, C), wpe: Embedding(P, C), drop, h and ln_f of models/decoder.h}
//   linear layers: Conv1D, with weights (in, out)
//   activation: gelu_new
//   each branch of a block ends in dropout
//   forward(input_ids): lm_head(ln_f(h(drop(wte(input_ids) + wpe.weight[:T])))), lm_head.weight = wte.weight
//   weights: normal, standard deviation 0.02, for c_proj 0.02 / sqrt(2 n_layer); biases 0
//
// Input "input_ids" (B, T), int64; output "logits" (B, T, V). lm_head shares its weight with transformer.wte, so files
// store only transformer.wte.weight, as those of transformers do.

// Sets the unset fields of the spec to their defaults.
void FillDefaults(v1::Gpt2Spec& spec);

// Builds the model for sequences of `sequence_length` tokens; 0 means n_positions. Returns INVALID_ARGUMENT with one
// violation per wrong field. The fields' paths begin with "model.gpt2"; for a length that the model does not support,
// the path is "data.train.tokens.sequence_length".
absl::StatusOr<graph::Graph> BuildGpt2(const v1::Gpt2Spec& spec, int64_t sequence_length);

}  // namespace ampd::models
