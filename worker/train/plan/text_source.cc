#include "worker/train/plan/text_source.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/heads.h"
#include "graph/vocabulary.h"

namespace ampd::train {
namespace {

// Upper bound for class labels if the model has no logits, whose shape would give the number of classes.
constexpr int64_t kAnyClass = std::numeric_limits<int32_t>::max();

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

}  // namespace

bool IsTextSource(const v1::DataSource& source) { return source.has_tokens() || source.has_jsonl(); }

absl::StatusOr<data::Dataset> OpenTextSource(const v1::DataSource& source, const std::string& field,
                                             const graph::Graph& model, bool needs_labels, Locator locate) {
  const auto logits = model.FindOutput("logits");
  const int64_t num_classes = logits.has_value() ? model.type(*logits).shape.back().factor() : kAnyClass;
  if (source.has_tokens()) {
    const v1::TokensSource& tokens = source.tokens();
    const bool is_language_model =
        graph::HeadOf(model) == graph::Head::kLanguageModel;  // A text for another model is rejected after it is read.
    AMPD_ASSIGN_OR_RETURN(data::DataFile file, locate(field + ".tokens.path", tokens.path()));
    return data::Dataset::ReadText(
        {.file = std::move(file),
         .format = FormatOf(tokens.format()),
         .sequence_length = tokens.sequence_length(),
         .limit = tokens.limit(),
         .vocabulary = is_language_model ? num_classes : graph::VocabularyOf(model, "input_ids").value_or(num_classes),
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
  return data::Dataset::ReadLabelledTexts({.file = std::move(file),
                                           .sequence_length = jsonl.sequence_length(),
                                           .pad_token = jsonl.pad_token(),
                                           .limit = jsonl.limit(),
                                           .vocabulary = vocabulary,
                                           .num_types = graph::VocabularyOf(model, "token_type_ids"),
                                           .num_classes = needs_labels ? num_classes : kAnyClass,
                                           .needs_labels = needs_labels});
}

}  // namespace ampd::train
