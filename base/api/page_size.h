#pragma once

#include <algorithm>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/text.h"

namespace ampd::server {

// The number of items on a page: `by_default` if `asked` is 0, otherwise `asked` limited to `at_most`. INVALID_ARGUMENT
// if `asked` is negative.
inline absl::StatusOr<int> PageSize(int asked, int by_default, int at_most) {
  if (asked < 0) {
    return InvalidFields({{"page_size", absl::StrCat("is ", asked, ", must be 0 (the default) or more")}});
  }
  return asked == 0 ? by_default : std::min(asked, at_most);
}

// Makes the INVALID_ARGUMENT error for a page token that does not belong to any list of the server.
inline absl::Status UnknownPageToken(std::string_view token) {
  constexpr size_t kMostShown = 80;
  return InvalidFields({{"page_token", absl::StrCat("is \"", Shortened(token, kMostShown),
                                                    "\", which is not one that this list gave; leave it out to start "
                                                    "at the beginning")}});
}

}  // namespace ampd::server
