#include "base/io/crc32c.h"

#include <isa-l/crc.h>

namespace ampd {

uint32_t Crc32c(std::string_view bytes) {
  // ISA-L's function leaves the inversion of the initial value and of the result to the caller. It takes a non-const
  // buffer, but only reads it.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
  return ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~0u);
}

}  // namespace ampd
