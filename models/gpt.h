#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ampd::models {

// Sizes of a GPT; the defaults are GPT-2's.
struct GptConfig {
  int64_t num_layers = 12;
  int64_t width = 768;
  int64_t num_heads = 12;
  int64_t vocabulary = 50257;
  int64_t sequence_length = 1024;
  bool tied_head = true;  // The head uses the token embedding's weight.
};

// nanoGPT's model, with the same parameter names. Letters: B batch, T sequence_length, C width, V vocabulary.
//
//   transformer = {wte: Embedding(V, C), wpe: Embedding(T, C), h: num_layers blocks, ln_f: LayerNorm(C)}
//   block(x): x = x + attn(ln_1(x));  x + mlp(ln_2(x))
//   attn: c_attn = Linear(C, 3 C), causal attention over num_heads, c_proj = Linear(C, C)
//   mlp:  c_fc = Linear(C, 4 C), GELU(), c_proj = Linear(4 C, C)
//   forward(tokens): lm_head(ln_f(blocks(wte(tokens) + wpe.weight))), lm_head = Linear(C, V, bias=False)
//
// Input "tokens" (B, T), int64; output "logits" (B*T, V). Parameters are initialised by the defaults of the torch.nn
// modules, not by nanoGPT's rules. Returns INVALID_ARGUMENT with one violation per wrong field; paths begin with
// "model.gpt".
absl::StatusOr<graph::Graph> BuildGpt(const GptConfig& config);

}  // namespace ampd::models
