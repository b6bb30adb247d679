#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "worker/train/safetensors.h"

namespace ampd::train {

// Reads the JSON of a safetensors header and nothing more general: depth, names, counts and numbers are bounded, keys
// occur once, strings are strict UTF-8. Tensors come in the order of the text and are not checked against each other.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsJson(std::string_view json);

// True for well-formed UTF-8 (no surrogates, no overlong forms).
bool IsUtf8(std::string_view text);

}  // namespace ampd::train
