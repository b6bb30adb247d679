#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

namespace ampd::models {

// transformers' BertForSequenceClassification, with its names and its initialisation: letters B batch, T
// sequence_length, C hidden_size, L num_labels.
//
//   bert.embeddings: dropout(LayerNorm(word_embeddings(input_ids) + token_type_embeddings(token_type_ids) +
//     position_embeddings.weight[:T]))
//   bert.encoder.layer.<n>(x):
//     x = attention.output.LayerNorm(dropout(attention.output.dense(attention.self(x))) + x)
//     output.LayerNorm(dropout(output.dense(gelu(intermediate.dense(x)))) + x)
//   attention.self: query, key, value = Linear(C, C), attention over num_attention_heads to the positions that
//     attention_mask has
//   classifier(dropout(tanh(bert.pooler.dense(x[:, 0])))) = Linear(C, L)
//   weights: normal, of deviation 0.02; biases 0; LayerNorm's epsilon: 1e-12
//   The word embedding of token 0 (pad_token_id) has no gradient; transformers begins it as zeros, this as the others,
//   which shows only where a text's own tokens have it.
//
// Inputs "input_ids" (B, T), int64, "attention_mask" (B, T), bool, true at the text's positions, and "token_type_ids"
// (B, T), int64; output "logits" (B, L).
void FillDefaults(v1::BertClassifierSpec& spec);

// The model over sequences of one length; 0: max_position_embeddings. INVALID_ARGUMENT with one violation a wrong
// field, paths beginning with "model.bert_classifier", and "data.train.jsonl.sequence_length" of a length that the
// model does not take.
absl::StatusOr<graph::Graph> BuildBertClassifier(const v1::BertClassifierSpec& spec, int64_t sequence_length);

}  // namespace ampd::models
