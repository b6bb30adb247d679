#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ampd {

// Parses `text` as JSON. Returns INVALID_ARGUMENT if it is not JSON. Returns ALREADY_EXISTS, naming the key, if an
// object at any depth has a key twice: one of the two values would be lost.
//
// Parse text from outside with this function, and not with nlohmann::json::parse: that parser takes a byte of the value
// 0 for the end of the text and ignores what follows. This function returns INVALID_ARGUMENT and names the place.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text);

// Says where the text has its first byte of the value 0, which JSON does not allow: "no JSON from byte 7 on: that byte
// has the value 0". Bytes are counted from 1. Returns an empty text if there is no such byte.
std::string WhereJsonHasZero(std::string_view text);

}  // namespace ampd
