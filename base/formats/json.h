#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/statusor.h"

namespace ampd {

// The JSON in `text`. INVALID_ARGUMENT where it is none, and ALREADY_EXISTS naming the key where an object, at any
// depth, has one twice: one of the two values would be lost.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text);

}  // namespace ampd
