#include "models/decoder.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace ampd::models {
namespace {

using graph::Dim;
using graph::GraphBuilder;
using graph::ValueId;

// Splits x (B, T, C) into attention heads: (B, heads, T, C / heads).
ValueId Heads(GraphBuilder& b, const DecoderOptions& options, const std::string& path, ValueId x) {
  const int64_t head_width = options.width / options.num_heads;
  x = b.View(path, x, {Dim::Batch(), options.sequence_length, options.num_heads, head_width});
  return b.Transpose(path, x, 1, 2);
}

ValueId Attention(GraphBuilder& b, const DecoderOptions& options, const std::string& path, ValueId x) {
  const std::vector<ValueId> parts =
      b.Split(path, options.linear(path + ".c_attn", x, 3 * options.width, /*ends_branch=*/false), 3);
  const ValueId query = Heads(b, options, path, parts[0]);
  const ValueId key = Heads(b, options, path, parts[1]);
  const ValueId value = Heads(b, options, path, parts[2]);
  const ValueId heads = b.Attention(path, query, key, value, /*is_causal=*/true);
  const ValueId joined =
      b.View(path, b.Transpose(path, heads, 1, 2), {Dim::Batch(), options.sequence_length, options.width});
  return options.linear(path + ".c_proj", joined, options.width, /*ends_branch=*/true);
}

ValueId Mlp(const DecoderOptions& options, const std::string& path, ValueId x) {
  x = options.linear(path + ".c_fc", x, 4 * options.width, /*ends_branch=*/false);
  return options.linear(path + ".c_proj", options.activation(path, x), options.width, /*ends_branch=*/true);
}

ValueId Block(GraphBuilder& b, const DecoderOptions& options, const std::string& path, ValueId x) {
  x = b.Add(path, x, Attention(b, options, path + ".attn", b.LayerNorm(path + ".ln_1", x)));
  return b.Add(path, x, Mlp(options, path + ".mlp", b.LayerNorm(path + ".ln_2", x)));
}

}  // namespace

ValueId Decoder(GraphBuilder& b, const DecoderOptions& options, ValueId x) {
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    x = Block(b, options, absl::StrCat("transformer.h.", layer), x);
  }
  return b.LayerNorm("transformer.ln_f", x);
}

}  // namespace ampd::models
