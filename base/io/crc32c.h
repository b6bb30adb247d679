#pragma once

#include <cstdint>
#include <string_view>

namespace ampd {

// CRC-32C (Castagnoli, as in RFC 3720): the checksum of "123456789" is 0xe3069283.
uint32_t Crc32c(std::string_view bytes);

}  // namespace ampd
