#include "models/gpt.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "graph/builder/builder.h"
#include "models/decoder.h"
#include "models/limits.h"

namespace ampd::models {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::Initializer;
using graph::ValueId;

std::vector<FieldViolation> Violations(const GptConfig& config) {
  Limits limits("model.gpt");
  limits.Within("num_layers", config.num_layers, 1, kMaxLayers);
  limits.Within("width", config.width, 1, kMaxDecoderWidth);
  limits.Within("num_heads", config.num_heads, 1, kMaxDecoderWidth);
  limits.Within("vocabulary", config.vocabulary, 2, kMaxVocabulary);
  limits.Within("sequence_length", config.sequence_length, 1, kMaxSequence);
  if (config.num_heads >= 1 && config.width % config.num_heads != 0) {
    limits.Add("num_heads", absl::StrCat(config.num_heads, " does not divide the width, ", config.width));
  }
  return std::move(limits).violations();
}

}  // namespace

absl::StatusOr<graph::Graph> BuildGpt(const GptConfig& config) {
  if (const auto violations = Violations(config); !violations.empty()) {
    return InvalidFields(violations);
  }
  GraphBuilder b("gpt");
  const ValueId tokens = b.Input("tokens", {Dtype::kInt64, {Dim::Batch(), config.sequence_length}});
  const ValueId table =
      b.Parameter("transformer.wte.weight", {config.vocabulary, config.width}, Initializer::Normal(1));
  const ValueId positions =
      b.Parameter("transformer.wpe.weight", {config.sequence_length, config.width}, Initializer::Normal(1));
  const DecoderOptions decoder = {
      .num_layers = config.num_layers,
      .num_heads = config.num_heads,
      .width = config.width,
      .sequence_length = config.sequence_length,
      .linear = [&b](const std::string& path, ValueId x, int64_t out_features,
                     bool /*ends_branch*/) { return b.Linear(path, x, out_features); },
      .activation = [&b](const std::string& path, ValueId x) { return b.Gelu(path + ".gelu", x); }};
  ValueId x = Decoder(b, decoder, b.Add("transformer", b.Embedding("transformer.wte", tokens, table), positions));
  x = b.View("", x, {Dim::Batch(config.sequence_length), config.width});
  b.Output("logits", config.tied_head ? b.TiedLinear("lm_head", x, table)
                                      : b.Linear("lm_head", x, config.vocabulary, /*bias=*/false));
  return std::move(b).Build();
}

}  // namespace ampd::models
