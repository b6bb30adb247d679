#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "graph/builder/builder.h"

namespace ampd::models {

// Describes a stack of GPT blocks, which Decoder builds. Letters: B batch, T sequence_length, C width.
struct DecoderOptions {
  // Adds a linear layer (..., in) -> (..., out_features) with its parameters under `path`. `ends_branch` is true if the
  // layer's result is added to the block's input.
  using Linear =
      std::function<graph::ValueId(const std::string& path, graph::ValueId x, int64_t out_features, bool ends_branch)>;
  using Activation = std::function<graph::ValueId(const std::string& path, graph::ValueId x)>;

  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t width = 0;
  int64_t sequence_length = 0;
  Linear linear;
  Activation activation;
};

// Adds the blocks and a final layer norm to the graph: x (B, T, C) -> (B, T, C).
//
//   h = num_layers blocks, block(x): x = x + attn(ln_1(x));  x + mlp(ln_2(x))
//   attn: c_attn = Linear(C, 3 C), causal attention over num_heads, c_proj = Linear(C, C)
//   mlp:  c_fc = Linear(C, 4 C), activation, c_proj = Linear(4 C, C)
//   ln_f(h(x)), all under the path "transformer"
graph::ValueId Decoder(graph::GraphBuilder& b, const DecoderOptions& options, graph::ValueId x);

}  // namespace ampd::models
