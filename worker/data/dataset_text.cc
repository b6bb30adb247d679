#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "ATen/ops/empty.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/jsonl.h"
#include "worker/data/dataset.h"
#include "worker/data/reused_tensor.h"

namespace ampd::data {

absl::StatusOr<Dataset> Dataset::ReadText(const Text& source) {
  const int64_t length = source.sequence_length;
  if (length < 1 || source.limit < 0 || source.limit > (std::numeric_limits<int64_t>::max() - 1) / length) {
    return DataError(source.file.name, absl::StrCat(source.limit, " windows of ", length, " tokens"));
  }
  const int64_t behind = source.needs_labels ? 1 : 0;  // The last label is the token after the last window.
  const int64_t wanted = source.limit > 0 ? source.limit * length + behind : 0;
  AMPD_ASSIGN_OR_RETURN(TokenFile read, ReadTokens(source.file, source.format, wanted, source.vocabulary));
  const int64_t held = std::visit([](const auto& all) { return static_cast<int64_t>(all.size()); }, read.tokens);
  if (held < length + behind) {
    return DataError(source.file.name, source.needs_labels
                                           ? absl::StrCat("it has ", held, " tokens; one window of ", length,
                                                          " and the token behind it are ", length + 1)
                                           : absl::StrCat("it has ", held, " tokens; one window has ", length));
  }
  Dataset data(Windows{std::move(read.tokens), length, (held - behind) / length, source.needs_labels});
  data.note_ = std::move(read.note);
  return data;
}

absl::StatusOr<Dataset> Dataset::ReadLabelledTexts(const LabelledTexts& source) {
  if (source.sequence_length < 1 || source.limit < 0) {
    return DataError(source.file.name, absl::StrCat(source.limit, " texts of ", source.sequence_length, " tokens"));
  }
  AMPD_ASSIGN_OR_RETURN(Texts texts, ReadJsonl(source.file, {.limit = source.limit,
                                                             .max_tokens = source.sequence_length,
                                                             .vocabulary = source.vocabulary,
                                                             .num_types = source.num_types,
                                                             .num_classes = source.num_classes,
                                                             .ignored_label = source.ignored_label,
                                                             .needs_labels = source.needs_labels}));
  return Dataset(Padded{std::move(texts), source.sequence_length, source.pad_token});
}

Dataset::Samples Dataset::Gather(const Padded& padded, const std::vector<int64_t>& indices, Samples reuse) {
  const Texts& texts = padded.texts;
  const auto count = static_cast<int64_t>(indices.size());
  const std::vector<int64_t> shape = {count, padded.length};
  at::Tensor tokens = EmptyLikeOr(reuse.images, shape, at::kLong);
  at::Tensor mask = EmptyLikeOr(reuse.others["attention_mask"], shape, at::kBool);
  at::Tensor types = EmptyLikeOr(reuse.others["token_type_ids"], shape, at::kLong);
  at::Tensor labels = EmptyLikeOr(reuse.labels, {count}, at::kLong);
  std::fill_n(tokens.data_ptr<int64_t>(), tokens.numel(), padded.pad_token);
  std::fill_n(mask.data_ptr<bool>(), mask.numel(), false);
  std::fill_n(types.data_ptr<int64_t>(), types.numel(), 0);
  for (int64_t i = 0; i < count; ++i) {
    const auto text = static_cast<size_t>(indices[static_cast<size_t>(i)]);
    const int64_t begin = text == 0 ? 0 : texts.ends[text - 1];
    const int64_t end = texts.ends[text];
    const int64_t row = i * padded.length;
    std::copy(texts.tokens.begin() + begin, texts.tokens.begin() + end, tokens.data_ptr<int64_t>() + row);
    std::copy(texts.types.begin() + begin, texts.types.begin() + end, types.data_ptr<int64_t>() + row);
    std::fill_n(mask.data_ptr<bool>() + row, end - begin, true);
    labels.data_ptr<int64_t>()[i] = texts.labels[text];
  }
  return {std::move(tokens), std::move(labels), {{"attention_mask", mask}, {"token_type_ids", types}}};
}

}  // namespace ampd::data
