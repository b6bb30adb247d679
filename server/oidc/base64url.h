#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ampd::server {

// Decodes base64url without padding (RFC 7515, 2). Returns nothing unless `text` is the only text that stands for these
// bytes: other decoders also take padding, bytes after it, and unused bits that are not zero.
std::optional<std::string> DecodeBase64Url(std::string_view text);

}  // namespace ampd::server
