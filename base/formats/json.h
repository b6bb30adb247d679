#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/statusor.h"

namespace ampd {

// Parses `text` as JSON. Returns INVALID_ARGUMENT if it is not JSON. Returns ALREADY_EXISTS, naming the key, if an
// object at any depth has a key twice: one of the two values would be lost.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text);

}  // namespace ampd
