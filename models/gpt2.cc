#include "models/gpt2.h"

#include <cmath>
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

constexpr double kDeviation = 0.02;
constexpr double kDropout = 0.1;

struct Sizes {
  int n_layer;
  int n_embd;
  int n_head;
};

Sizes SizesOf(v1::Gpt2Spec::Size size) {
  switch (size) {
    case v1::Gpt2Spec::MEDIUM:
      return {24, 1024, 16};
    case v1::Gpt2Spec::LARGE:
      return {36, 1280, 20};
    case v1::Gpt2Spec::XL:
      return {48, 1600, 25};
    default:
      return {12, 768, 12};
  }
}

std::vector<FieldViolation> Violations(const v1::Gpt2Spec& gpt2, int64_t sequence_length) {
  Limits limits("model.gpt2");
  if (!v1::Gpt2Spec::Size_IsValid(gpt2.size())) {
    limits.Add("size", absl::StrCat(static_cast<int>(gpt2.size()), " is not SMALL, MEDIUM, LARGE or XL"));
  }
  limits.Within("n_layer", gpt2.n_layer(), 1, kMaxLayers);
  limits.Within("n_embd", gpt2.n_embd(), 1, kMaxDecoderWidth);
  if (limits.Within("n_head", gpt2.n_head(), 1, kMaxDecoderWidth) && gpt2.n_embd() % gpt2.n_head() != 0) {
    limits.Add("n_head", absl::StrCat(gpt2.n_head(), " does not divide n_embd, ", gpt2.n_embd()));
  }
  const bool has_positions = limits.Within("n_positions", gpt2.n_positions(), 1, kMaxSequence);
  limits.Within("vocab_size", gpt2.vocab_size(), 2, kMaxVocabulary);
  limits.Probability("dropout", gpt2.dropout());
  std::vector<FieldViolation> violations = std::move(limits).violations();
  if (has_positions && (sequence_length < 1 || sequence_length > gpt2.n_positions())) {
    violations.push_back(
        {"data.train.tokens.sequence_length",
         absl::StrCat("is ", sequence_length, "; must be 1 to model.gpt2.n_positions, ", gpt2.n_positions())});
  }
  return violations;
}

ValueId DropoutOf(GraphBuilder& b, double probability, const std::string& path, ValueId x) {
  return probability == 0 ? x : b.Dropout(path, x, probability);
}

}  // namespace

void FillDefaults(v1::Gpt2Spec& spec) {
  if (spec.size() == v1::Gpt2Spec::SIZE_UNSPECIFIED) spec.set_size(v1::Gpt2Spec::SMALL);
  const Sizes sizes = SizesOf(spec.size());
  if (spec.n_layer() == 0) spec.set_n_layer(sizes.n_layer);
  if (spec.n_embd() == 0) spec.set_n_embd(sizes.n_embd);
  if (spec.n_head() == 0) spec.set_n_head(sizes.n_head);
  if (spec.n_positions() == 0) spec.set_n_positions(1024);
  if (spec.vocab_size() == 0) spec.set_vocab_size(50257);
  if (!spec.has_dropout()) spec.set_dropout(kDropout);
}

absl::StatusOr<graph::Graph> BuildGpt2(const v1::Gpt2Spec& spec, int64_t sequence_length) {
  v1::Gpt2Spec gpt2 = spec;
  FillDefaults(gpt2);
  const int64_t length = sequence_length == 0 ? gpt2.n_positions() : sequence_length;
  if (const auto violations = Violations(gpt2, length); !violations.empty()) {
    return InvalidFields(violations);
  }
  GraphBuilder b("gpt2");
  const ValueId tokens = b.Input("input_ids", {Dtype::kInt64, {Dim::Batch(), length}});
  const ValueId table =
      b.Parameter("transformer.wte.weight", {gpt2.vocab_size(), gpt2.n_embd()}, Initializer::Normal(kDeviation));
  const ValueId positions =
      b.Parameter("transformer.wpe.weight", {gpt2.n_positions(), gpt2.n_embd()}, Initializer::Normal(kDeviation));
  const double of_branch_end = kDeviation / std::sqrt(2.0 * gpt2.n_layer());
  const double dropout = gpt2.dropout();
  const DecoderOptions decoder = {
      .num_layers = gpt2.n_layer(),
      .num_heads = gpt2.n_head(),
      .width = gpt2.n_embd(),
      .sequence_length = length,
      .linear =
          [&b, of_branch_end, dropout](const std::string& path, ValueId x, int64_t out_features, bool ends_branch) {
            x = b.Conv1d(path, x, out_features, Initializer::Normal(ends_branch ? of_branch_end : kDeviation));
            return ends_branch ? DropoutOf(b, dropout, path, x) : x;
          },
      .activation = [&b](const std::string& path, ValueId x) { return b.GeluTanh(path + ".act", x); }};
  // This is a statement of its own, because the compiler may evaluate a call's arguments in any order, and the order of
  // the calls decides the order of the graph's nodes.
  const ValueId rows = b.Rows("transformer.wpe", positions, length);
  ValueId x = b.Add("transformer", b.Embedding("transformer.wte", tokens, table), rows);
  x = Decoder(b, decoder, DropoutOf(b, dropout, "transformer.drop", x));
  b.Output("logits", b.TiedLinear("lm_head", x, table));
  return std::move(b).Build();
}

}  // namespace ampd::models
