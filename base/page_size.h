#pragma once

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace ampd::server {

// How many items a page gets: what was asked for, within the bound, or the default for 0. INVALID_ARGUMENT below that.
inline absl::StatusOr<int> PageSize(int asked, int by_default, int at_most) {
  if (asked < 0) {
    return InvalidFields({{"page_size", absl::StrCat("is ", asked, ", must be 0 (the default) or more")}});
  }
  return asked == 0 ? by_default : std::min(asked, at_most);
}

}  // namespace ampd::server
