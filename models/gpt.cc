#include "models/gpt.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "graph/builder.h"
#include "models/limits.h"

namespace ampd::models {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::Initializer;
using graph::ValueId;

constexpr int64_t kMaxLayers = 256;
constexpr int64_t kMaxGptWidth = 1 << 16;
constexpr int64_t kMaxVocabulary = 1 << 20;
constexpr int64_t kMaxSequence = 1 << 20;

std::vector<FieldViolation> Violations(const GptConfig& config) {
  Limits limits("model.gpt");
  limits.Within("num_layers", config.num_layers, 1, kMaxLayers);
  limits.Within("width", config.width, 1, kMaxGptWidth);
  limits.Within("num_heads", config.num_heads, 1, kMaxGptWidth);
  limits.Within("vocabulary", config.vocabulary, 2, kMaxVocabulary);
  limits.Within("sequence_length", config.sequence_length, 1, kMaxSequence);
  if (config.num_heads >= 1 && config.width % config.num_heads != 0) {
    limits.Add("num_heads", absl::StrCat(config.num_heads, " does not divide the width, ", config.width));
  }
  return std::move(limits).violations();
}

// Writes the layers of one config.
class GptBuilder {
 public:
  explicit GptBuilder(const GptConfig& config) : config_(config), b_("gpt") {}

  absl::StatusOr<graph::Graph> Build() && {
    const int64_t width = config_.width;
    const ValueId tokens = b_.Input("tokens", {Dtype::kInt64, {Dim::Batch(), config_.sequence_length}});
    const ValueId table = b_.Parameter("transformer.wte.weight", {config_.vocabulary, width}, Initializer::Normal(1));
    const ValueId positions =
        b_.Parameter("transformer.wpe.weight", {config_.sequence_length, width}, Initializer::Normal(1));
    ValueId x = b_.Add("transformer", b_.Embedding("transformer.wte", tokens, table), positions);
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      x = Block(absl::StrCat("transformer.h.", layer), x);
    }
    x = b_.View("", b_.LayerNorm("transformer.ln_f", x), {Dim::Batch(config_.sequence_length), width});
    b_.Output("logits", config_.tied_head ? b_.TiedLinear("lm_head", x, table)
                                          : b_.Linear("lm_head", x, config_.vocabulary, /*bias=*/false));
    return std::move(b_).Build();
  }

 private:
  ValueId Block(const std::string& path, ValueId x) {
    x = b_.Add(path, x, Attention(path + ".attn", b_.LayerNorm(path + ".ln_1", x)));
    return b_.Add(path, x, Mlp(path + ".mlp", b_.LayerNorm(path + ".ln_2", x)));
  }

  ValueId Attention(const std::string& path, ValueId x) {
    const std::vector<ValueId> parts = b_.Split(path, b_.Linear(path + ".c_attn", x, 3 * config_.width), 3);
    const ValueId query = Heads(path, parts[0]);
    const ValueId key = Heads(path, parts[1]);
    const ValueId value = Heads(path, parts[2]);
    const ValueId heads = b_.Attention(path, query, key, value, /*is_causal=*/true);
    const ValueId joined =
        b_.View(path, b_.Transpose(path, heads, 1, 2), {Dim::Batch(), config_.sequence_length, config_.width});
    return b_.Linear(path + ".c_proj", joined, config_.width);
  }

  // (B, T, C) -> (B, heads, T, C / heads)
  ValueId Heads(const std::string& path, ValueId x) {
    const int64_t head_width = config_.width / config_.num_heads;
    x = b_.View(path, x, {Dim::Batch(), config_.sequence_length, config_.num_heads, head_width});
    return b_.Transpose(path, x, 1, 2);
  }

  ValueId Mlp(const std::string& path, ValueId x) {
    x = b_.Gelu(path + ".gelu", b_.Linear(path + ".c_fc", x, 4 * config_.width));
    return b_.Linear(path + ".c_proj", x, config_.width);
  }

  const GptConfig config_;
  GraphBuilder b_;
};

}  // namespace

absl::StatusOr<graph::Graph> BuildGpt(const GptConfig& config) {
  if (const auto violations = Violations(config); !violations.empty()) {
    return InvalidFields(violations);
  }
  return GptBuilder(config).Build();
}

}  // namespace ampd::models
