#pragma once

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace ampd::server {

// The number of items on a page: `asked`, limited to `at_most`, or `by_default` if 0. INVALID_ARGUMENT if negative.
inline absl::StatusOr<int> PageSize(int asked, int by_default, int at_most) {
  if (asked < 0) {
    return InvalidFields({{"page_size", absl::StrCat("is ", asked, ", must be 0 (the default) or more")}});
  }
  return asked == 0 ? by_default : std::min(asked, at_most);
}

}  // namespace ampd::server
