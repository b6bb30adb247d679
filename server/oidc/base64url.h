#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ampd::server {

// Decodes base64url without padding (RFC 7515, 2). Returns nullopt unless `text` is the only valid encoding of its
// bytes. Lenient decoders also accept padding, trailing bytes, and unused bits that are not zero.
std::optional<std::string> DecodeBase64Url(std::string_view text);

}  // namespace ampd::server
