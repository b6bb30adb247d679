#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/data/dataset.h"

namespace ampd::data {

absl::StatusOr<Dataset> Dataset::ReadText(const Text& source) {
  const int64_t length = source.sequence_length;
  if (length < 1 || source.limit < 0 || source.limit > (std::numeric_limits<int64_t>::max() - 1) / length) {
    return DataError(source.file.name, absl::StrCat(source.limit, " windows of ", length, " tokens"));
  }
  const int64_t wanted = source.limit > 0 ? source.limit * length + 1 : 0;
  AMPD_ASSIGN_OR_RETURN(Tokens tokens, ReadTokens(source.file, source.format, wanted, source.vocabulary));
  const int64_t held = std::visit([](const auto& all) { return static_cast<int64_t>(all.size()); }, tokens);
  if (held < length + 1) {
    return DataError(source.file.name, absl::StrCat("it has ", held, " tokens; one window of ", length,
                                                    " and the token behind it are ", length + 1));
  }
  return Dataset(Windows{std::move(tokens), length, (held - 1) / length});
}

}  // namespace ampd::data
