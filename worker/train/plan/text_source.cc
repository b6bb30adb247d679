#include "worker/train/plan/text_source.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/heads.h"
#include "graph/vocabulary.h"

namespace ampd::train {
namespace {

data::TokenFormat FormatOf(v1::TokensSource::Format format) {
  switch (format) {
    case v1::TokensSource::LLM_C:
      return data::TokenFormat::kLlmC;
    case v1::TokensSource::UINT16:
      return data::TokenFormat::kUint16;
    case v1::TokensSource::UINT32:
      return data::TokenFormat::kUint32;
    default:
      return data::TokenFormat::kAuto;
  }
}

// The number of different tokens in a text of which the model predicts the next token; nothing if it is unknown. Such a
// token is an input of the model, so a row of its embedding, and a label, so a class of its loss. The two numbers may
// differ: many models have more logits than rows, because a product is faster if its sizes are multiples of 64.
std::optional<int64_t> NumTokensOf(const graph::Graph& model, const Labels& labels) {
  constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  int64_t count = graph::VocabularyOf(model, "input_ids").value_or(kUnknown);
  if (graph::HeadOf(model) == graph::Head::kLanguageModel) {
    count = std::min(count, model.type(*model.FindOutput("logits")).shape.back().factor());
  } else if (labels.targets.has_value()) {
    const int64_t num_classes = labels.targets->num_classes.value_or(kUnknown);
    const bool ignores_larger = labels.targets->ignored.value_or(-1) >= num_classes;
    count = ignores_larger ? count : std::min(count, num_classes);
  }
  return count == kUnknown ? std::nullopt : std::optional(count);
}

}  // namespace

bool IsTextSource(const v1::DataSource& source) { return source.has_tokens() || source.has_jsonl(); }

absl::StatusOr<data::Dataset> OpenTextSource(const v1::DataSource& source, const std::string& field,
                                             const graph::Graph& model, const Labels& labels, bool needs_labels,
                                             Locator locate) {
  if (source.has_tokens()) {
    const v1::TokensSource& tokens = source.tokens();
    AMPD_ASSIGN_OR_RETURN(data::DataFile file, locate(field + ".tokens.path", tokens.path()));
    return data::Dataset::ReadText({.file = std::move(file),
                                    .format = FormatOf(tokens.format()),
                                    .sequence_length = tokens.sequence_length(),
                                    .limit = tokens.limit(),
                                    .vocabulary = NumTokensOf(model, labels),
                                    .needs_labels = needs_labels});
  }
  const v1::JsonlSource& jsonl = source.jsonl();
  const auto vocabulary = graph::VocabularyOf(model, "input_ids");
  if (vocabulary.has_value() && jsonl.pad_token() >= *vocabulary) {
    return Error(absl::StatusCode::kInvalidArgument, "SPEC_ERROR",
                 absl::StrCat(field, ".jsonl.pad_token is ", jsonl.pad_token(), "; the model has ", *vocabulary,
                              " tokens in its vocabulary"));
  }
  AMPD_ASSIGN_OR_RETURN(data::DataFile file, locate(field + ".jsonl.path", jsonl.path()));
  return data::Dataset::ReadLabelledTexts(
      {.file = std::move(file),
       .sequence_length = jsonl.sequence_length(),
       .pad_token = jsonl.pad_token(),
       .limit = jsonl.limit(),
       .vocabulary = vocabulary,
       .num_types = graph::VocabularyOf(model, "token_type_ids"),
       .num_classes = labels.num_classes > 0 ? std::optional(labels.num_classes) : std::nullopt,
       .ignored_label = labels.targets.has_value() ? labels.targets->ignored : std::nullopt,
       .needs_labels = needs_labels});
}

}  // namespace ampd::train
