#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/formats/safetensors.h"

namespace ampd {

// Reads the JSON of a safetensors header and nothing more general: depth, names, counts and numbers are bounded, keys
// occur once, strings are strict UTF-8. Tensors come in the order of the text and are not checked against each other.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsJson(std::string_view json);

// True for well-formed UTF-8 (no surrogates, no overlong forms).
bool IsUtf8(std::string_view text);

// Whether text in UTF-8 has control characters: C0, DEL or C1.
bool HasControl(std::string_view text);

// What a message shows of a text from a file: a bounded piece in quotes, escaped where it is not plain UTF-8.
std::string Quoted(std::string_view text);

}  // namespace ampd
