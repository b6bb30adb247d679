#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/formats/safetensors.h"

namespace ampd {

// Parses the JSON of a safetensors header, not JSON in general: depth, names, counts and numbers are bounded, keys
// occur once, and strings are strict UTF-8. Tensors are returned in the order of the text and are not checked against
// each other.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsJson(std::string_view json);

// True for well-formed UTF-8 (no surrogates, no overlong forms).
bool IsUtf8(std::string_view text);

// Whether UTF-8 text has control characters: C0, DEL or C1.
bool HasControl(std::string_view text);

// Prepares text from a file for an error message: at most a bounded piece of it, in quotes, escaped where it is not
// plain UTF-8.
std::string Quoted(std::string_view text);

}  // namespace ampd
