#pragma once

#include <string>
#include <string_view>

namespace ampd {

// Returns `content` as a gzip file (RFC 1952), without a name or a time, so that equal contents give equal bytes with
// one version of zlib.
std::string Gzip(std::string_view content);

}  // namespace ampd
