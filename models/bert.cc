#include "models/bert.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "graph/builder/builder.h"
#include "models/limits.h"

namespace ampd::models {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::Initializer;
using graph::ValueId;

constexpr double kBertDeviation = 0.02;
constexpr double kBertDropout = 0.1;
constexpr double kEpsilon = 1e-12;
constexpr int64_t kPadToken = 0;  // BertConfig's pad_token_id.
constexpr int64_t kMaxTypes = 256;

std::vector<FieldViolation> Violations(const v1::BertClassifierSpec& bert, int64_t sequence_length) {
  Limits limits("model.bert_classifier");
  limits.Within("num_hidden_layers", bert.num_hidden_layers(), 1, kMaxLayers);
  limits.Within("hidden_size", bert.hidden_size(), 1, kMaxDecoderWidth);
  if (limits.Within("num_attention_heads", bert.num_attention_heads(), 1, kMaxDecoderWidth) &&
      bert.hidden_size() % bert.num_attention_heads() != 0) {
    limits.Add("num_attention_heads",
               absl::StrCat(bert.num_attention_heads(), " does not divide hidden_size, ", bert.hidden_size()));
  }
  limits.Within("intermediate_size", bert.intermediate_size(), 1, kMaxFeatures);
  const bool has_positions = limits.Within("max_position_embeddings", bert.max_position_embeddings(), 1, kMaxSequence);
  limits.Within("vocab_size", bert.vocab_size(), 2, kMaxVocabulary);
  limits.Within("type_vocab_size", bert.type_vocab_size(), 1, kMaxTypes);
  limits.Within("num_labels", bert.num_labels(), 2, kMaxClasses);
  limits.Probability("dropout", bert.dropout());
  std::vector<FieldViolation> violations = std::move(limits).violations();
  if (has_positions && (sequence_length < 1 || sequence_length > bert.max_position_embeddings())) {
    violations.push_back({"data.train.jsonl.sequence_length",
                          absl::StrCat("is ", sequence_length, "; must be 1 to model.bert_classifier.",
                                       "max_position_embeddings, ", bert.max_position_embeddings())});
  }
  return violations;
}

// Builds the layers of one model.
class Bert {
 public:
  Bert(GraphBuilder& b, const v1::BertClassifierSpec& spec, int64_t sequence_length)
      : b_(b), spec_(spec), sequence_length_(sequence_length) {}

  // Returns the logits, (B, L).
  ValueId Classify() {
    const ValueId tokens = b_.Input("input_ids", {Dtype::kInt64, {Dim::Batch(), sequence_length_}});
    const ValueId mask = b_.Input("attention_mask", {Dtype::kBool, {Dim::Batch(), sequence_length_}});
    const ValueId types = b_.Input("token_type_ids", {Dtype::kInt64, {Dim::Batch(), sequence_length_}});
    ValueId x = Embeddings(tokens, types);
    mask_ = b_.View("bert", mask, {Dim::Batch(), 1, 1, sequence_length_});
    for (int layer = 0; layer < spec_.num_hidden_layers(); ++layer) {
      x = Layer(absl::StrCat("bert.encoder.layer.", layer), x);
    }
    x = Linear("bert.pooler.dense", b_.Select("bert.pooler", x, 1, 0), spec_.hidden_size());
    x = Dropout("dropout", b_.Tanh("bert.pooler.activation", x));
    return Linear("classifier", x, spec_.num_labels());
  }

 private:
  ValueId Embeddings(ValueId tokens, ValueId types) {
    const std::string path = "bert.embeddings";
    const int64_t width = spec_.hidden_size();
    const ValueId words = b_.Parameter(path + ".word_embeddings.weight", {spec_.vocab_size(), width},
                                       Initializer::Normal(kBertDeviation));
    const ValueId positions =
        b_.Parameter(path + ".position_embeddings.weight", {spec_.max_position_embeddings(), width},
                     Initializer::Normal(kBertDeviation));
    const ValueId of_types = b_.Parameter(path + ".token_type_embeddings.weight", {spec_.type_vocab_size(), width},
                                          Initializer::Normal(kBertDeviation));
    ValueId x = b_.Embedding(path + ".word_embeddings", tokens, words, kPadToken);
    x = b_.Add(path, x, b_.Embedding(path + ".token_type_embeddings", types, of_types));
    x = b_.Add(path, x, b_.Rows(path + ".position_embeddings", positions, sequence_length_));
    return Dropout(path + ".dropout", Norm(path + ".LayerNorm", x));
  }

  ValueId Layer(const std::string& path, ValueId x) {
    x = Residual(path + ".attention.output", Attention(path + ".attention.self", x), x);
    const ValueId wide = Linear(path + ".intermediate.dense", x, spec_.intermediate_size());
    return Residual(path + ".output", b_.Gelu(path + ".intermediate.intermediate_act_fn", wide), x);
  }

  ValueId Attention(const std::string& path, ValueId x) {
    const ValueId query = Heads(path, Linear(path + ".query", x, spec_.hidden_size()));
    const ValueId key = Heads(path, Linear(path + ".key", x, spec_.hidden_size()));
    const ValueId value = Heads(path, Linear(path + ".value", x, spec_.hidden_size()));
    const ValueId heads = b_.Attention(path, query, key, value, /*is_causal=*/false, mask_);
    return b_.View(path, b_.Transpose(path, heads, 1, 2), {Dim::Batch(), sequence_length_, spec_.hidden_size()});
  }

  // Splits x (B, T, C) into attention heads: (B, heads, T, C / heads).
  ValueId Heads(const std::string& path, ValueId x) {
    const int64_t heads = spec_.num_attention_heads();
    x = b_.View(path, x, {Dim::Batch(), sequence_length_, heads, spec_.hidden_size() / heads});
    return b_.Transpose(path, x, 1, 2);
  }

  // Ends a residual branch: a linear layer, dropout, the addition of `x` (the branch's input) and a layer norm.
  ValueId Residual(const std::string& path, ValueId branch, ValueId x) {
    branch = Dropout(path + ".dropout", Linear(path + ".dense", branch, spec_.hidden_size()));
    return Norm(path + ".LayerNorm", b_.Add(path, branch, x));
  }

  ValueId Linear(const std::string& path, ValueId x, int64_t out_features) {
    return b_.Linear(path, x, out_features, Initializer::Normal(kBertDeviation));
  }
  ValueId Norm(const std::string& path, ValueId x) { return b_.LayerNorm(path, x, kEpsilon); }
  ValueId Dropout(const std::string& path, ValueId x) {
    return spec_.dropout() == 0 ? x : b_.Dropout(path, x, spec_.dropout());
  }

  GraphBuilder& b_;
  const v1::BertClassifierSpec& spec_;
  const int64_t sequence_length_;
  ValueId mask_;  // (B, 1, 1, T)
};

}  // namespace

void FillDefaults(v1::BertClassifierSpec& spec) {
  if (spec.num_hidden_layers() == 0) spec.set_num_hidden_layers(12);
  if (spec.hidden_size() == 0) spec.set_hidden_size(768);
  if (spec.num_attention_heads() == 0) spec.set_num_attention_heads(12);
  if (spec.intermediate_size() == 0) {
    const bool has_size = 0 < spec.hidden_size() && spec.hidden_size() <= kMaxDecoderWidth;
    spec.set_intermediate_size(has_size ? 4 * spec.hidden_size() : 1);
  }
  if (spec.max_position_embeddings() == 0) spec.set_max_position_embeddings(512);
  if (spec.vocab_size() == 0) spec.set_vocab_size(30522);
  if (spec.type_vocab_size() == 0) spec.set_type_vocab_size(2);
  if (spec.num_labels() == 0) spec.set_num_labels(2);
  if (!spec.has_dropout()) spec.set_dropout(kBertDropout);
}

absl::StatusOr<graph::Graph> BuildBertClassifier(const v1::BertClassifierSpec& spec, int64_t sequence_length) {
  v1::BertClassifierSpec bert = spec;
  FillDefaults(bert);
  const int64_t length = sequence_length == 0 ? bert.max_position_embeddings() : sequence_length;
  if (const auto violations = Violations(bert, length); !violations.empty()) {
    return InvalidFields(violations);
  }
  GraphBuilder b("bert_classifier");
  b.Output("logits", Bert(b, bert, length).Classify());
  return std::move(b).Build();
}

}  // namespace ampd::models
