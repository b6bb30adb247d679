#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

namespace ampd::models {

// A classifier of texts of different lengths with torch.nn.LSTM or torch.nn.GRU, with the parameter names and
// initialisation of the modules below. Letters: B batch, T sequence_length, E embedding_size, H hidden_size, L
// num_classes, D 2 if bidirectional and 1 otherwise.
//
//   embedding = Embedding(vocab_size, E)
//   rnn = LSTM(E, H, num_layers, batch_first=True, bidirectional=..., dropout=...), or GRU
//   classifier = Linear(D * H, L)
//   forward(input_ids, attention_mask):
//     packed = pack_padded_sequence(embedding(input_ids), attention_mask.sum(1), batch_first=True,
//                                   enforce_sorted=False)
//     states = the last layer's h_n, (D, B, H), of rnn(packed)
//     classifier(cat(states, 1))
//
// So only the tokens of a text affect its result, not the padding after them. The graph computes the same without
// packing: the backward direction of a layer reads the tokens of each text from the last to the first.
//
// Inputs "input_ids" (B, T), int64, and "attention_mask" (B, T), bool, true at the text's positions, which come first;
// output "logits" (B, L).

// Sets the unset fields of the spec to their defaults.
void FillDefaults(v1::RnnSpec& spec);

// Builds the model for sequences of `sequence_length` tokens; 0 means 256. Returns INVALID_ARGUMENT with one violation
// per wrong field. The fields' paths begin with "model.rnn"; for a length that the model does not support, the path is
// "data.train.jsonl.sequence_length".
absl::StatusOr<graph::Graph> BuildRnn(const v1::RnnSpec& spec, int64_t sequence_length);

}  // namespace ampd::models
