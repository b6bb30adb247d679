#include "server/oidc/base64url.h"

#include "absl/strings/escaping.h"

namespace ampd::server {

std::optional<std::string> DecodeBase64Url(std::string_view text) {
  const std::string encoded(text);
  std::string bytes;
  return absl::WebSafeBase64Unescape(encoded, &bytes) && absl::WebSafeBase64Escape(bytes) == encoded
             ? std::optional(std::move(bytes))
             : std::nullopt;
}

}  // namespace ampd::server
