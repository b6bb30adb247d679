#include "models/rnn.h"

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
using graph::RecurrentCell;
using graph::ValueId;

constexpr int64_t kLengthToLookAt = 256;
constexpr int64_t kMaxRecurrentLayers = 64;

std::vector<FieldViolation> Violations(const v1::RnnSpec& rnn, int64_t sequence_length) {
  Limits limits("model.rnn");
  if (!v1::RnnSpec::Cell_IsValid(rnn.cell())) {
    limits.Add("cell", absl::StrCat(rnn.cell(), " is not LSTM or GRU"));
  }
  limits.Within("vocab_size", rnn.vocab_size(), 2, kMaxVocabulary);
  limits.Within("embedding_size", rnn.embedding_size(), 1, kMaxDecoderWidth);
  limits.Within("hidden_size", rnn.hidden_size(), 1, kMaxDecoderWidth);
  limits.Within("num_layers", rnn.num_layers(), 1, kMaxRecurrentLayers);
  limits.Within("num_classes", rnn.num_classes(), 2, kMaxClasses);
  limits.Probability("dropout", rnn.dropout());
  std::vector<FieldViolation> violations = std::move(limits).violations();
  if (sequence_length < 1 || sequence_length > kMaxSequence) {
    violations.push_back(
        {"data.train.jsonl.sequence_length", absl::StrCat("is ", sequence_length, "; must be 1 to ", kMaxSequence)});
  }
  return violations;
}

// Builds the layers of one model.
class Rnn {
 public:
  Rnn(GraphBuilder& b, const v1::RnnSpec& spec, int64_t sequence_length)
      : b_(b), spec_(spec), sequence_length_(sequence_length) {}

  // Returns the logits, (B, L).
  ValueId Classify() {
    const ValueId tokens = b_.Input("input_ids", {Dtype::kInt64, {Dim::Batch(), sequence_length_}});
    const ValueId mask = b_.Input("attention_mask", {Dtype::kBool, {Dim::Batch(), sequence_length_}});
    const ValueId table =
        b_.Parameter("embedding.weight", {spec_.vocab_size(), spec_.embedding_size()}, Initializer::Normal(1));
    ValueId x = b_.Embedding("embedding", tokens, table);
    reversed_ = b_.ReversedPositions(kPath, mask);
    start_ = b_.RecurrentStart(kPath, x, spec_.hidden_size());
    for (int layer = 0; layer + 1 < spec_.num_layers(); ++layer) {
      x = Between(Layer(layer, x));
    }
    return b_.Linear("classifier", Last(Layer(spec_.num_layers() - 1, x)), spec_.num_classes());
  }

 private:
  static constexpr char kPath[] = "rnn";

  // The outputs of a layer's forward and backward direction, (B, T, H) each. `backward` is reversed: its first position
  // is that of the text's last token.
  struct Directions {
    ValueId forward;
    ValueId backward;
  };

  Directions Layer(int layer, ValueId x) {
    const std::string suffix = absl::StrCat("l", layer);
    const RecurrentCell cell = spec_.cell() == v1::RnnSpec::GRU ? RecurrentCell::kGru : RecurrentCell::kLstm;
    Directions result;
    result.forward = b_.Recurrent(kPath, x, start_, cell, suffix);
    if (spec_.bidirectional()) {
      result.backward =
          b_.Recurrent(kPath, b_.TakePositions(kPath, x, reversed_), start_, cell, absl::StrCat(suffix, "_reverse"));
    }
    return result;
  }

  // Returns the input of the next layer, (B, T, D * H).
  ValueId Between(const Directions& layer) {
    ValueId x = layer.forward;
    if (spec_.bidirectional()) {
      x = b_.Concat(kPath, {x, b_.TakePositions(kPath, layer.backward, reversed_)}, 2);
    }
    return spec_.dropout() == 0 ? x : b_.Dropout(kPath, x, spec_.dropout());
  }

  // Returns the state of each direction after its last step within the text, concatenated: (B, D * H).
  ValueId Last(const Directions& layer) {
    const ValueId last = b_.Unsqueeze(kPath, b_.Select(kPath, reversed_, 1, 0), 1);
    const auto of = [&](ValueId x) { return b_.Squeeze(kPath, b_.TakePositions(kPath, x, last), 1); };
    const ValueId forward = of(layer.forward);
    return spec_.bidirectional() ? b_.Concat(kPath, {forward, of(layer.backward)}, 1) : forward;
  }

  GraphBuilder& b_;
  const v1::RnnSpec& spec_;
  const int64_t sequence_length_;
  ValueId reversed_;  // (B, T)
  ValueId start_;     // (1, B, H)
};

}  // namespace

void FillDefaults(v1::RnnSpec& spec) {
  if (spec.cell() == v1::RnnSpec::CELL_UNSPECIFIED) spec.set_cell(v1::RnnSpec::LSTM);
  if (spec.embedding_size() == 0) spec.set_embedding_size(128);
  if (spec.hidden_size() == 0) spec.set_hidden_size(256);
  if (spec.num_layers() == 0) spec.set_num_layers(1);
  if (spec.num_classes() == 0) spec.set_num_classes(2);
}

absl::StatusOr<graph::Graph> BuildRnn(const v1::RnnSpec& spec, int64_t sequence_length) {
  v1::RnnSpec rnn = spec;
  FillDefaults(rnn);
  const int64_t length = sequence_length == 0 ? kLengthToLookAt : sequence_length;
  if (const auto violations = Violations(rnn, length); !violations.empty()) {
    return InvalidFields(violations);
  }
  GraphBuilder b("rnn");
  b.Output("logits", Rnn(b, rnn, length).Classify());
  return std::move(b).Build();
}

}  // namespace ampd::models
