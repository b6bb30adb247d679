#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

namespace ampd::models {

// Hugging Face transformers' BertForSequenceClassification, with the same parameter names and initialisation. Letters:
// B batch, T sequence_length, C hidden_size, L num_labels.
//
//   bert.embeddings: dropout(LayerNorm(word_embeddings(input_ids) + token_type_embeddings(token_type_ids) +
//     position_embeddings.weight[:T]))
//   bert.encoder.layer.<n>(x):
//     x = attention.output.LayerNorm(dropout(attention.output.dense(attention.self(x))) + x)
//     output.LayerNorm(dropout(output.dense(gelu(intermediate.dense(x)))) + x)
//   attention.self: query, key, value = Linear(C, C), attention over num_attention_heads to the positions where
//     attention_mask is true
//   classifier(dropout(tanh(bert.pooler.dense(x[:, 0])))) = Linear(C, L)
//   weights: normal, standard deviation 0.02; biases 0; LayerNorm's epsilon: 1e-12
//
// The word embedding of token 0 (pad_token_id) has no gradient. This model initialises it like all other embeddings,
// but transformers sets it to zeros. The difference shows only if a text itself contains token 0.
//
// Inputs "input_ids" (B, T), int64; "attention_mask" (B, T), bool, true at the text's positions; and "token_type_ids"
// (B, T), int64. Output "logits" (B, L).

// Sets the unset fields of the spec to their defaults.
void FillDefaults(v1::BertClassifierSpec& spec);

// Builds the model for sequences of `sequence_length` tokens; 0 means max_position_embeddings. Returns INVALID_ARGUMENT
// with one violation per wrong field. The fields' paths begin with "model.bert_classifier"; for a length that the model
// does not support, the path is "data.train.jsonl.sequence_length".
absl::StatusOr<graph::Graph> BuildBertClassifier(const v1::BertClassifierSpec& spec, int64_t sequence_length);

}  // namespace ampd::models
