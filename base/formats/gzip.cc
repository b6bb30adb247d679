#include "base/formats/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

namespace ampd {

std::string Gzip(std::string_view content) {
  constexpr int kGzipWindow = 15 + 16;  // zlib's notation for a window of 32 KiB and the header of gzip.
  constexpr int kMemoryLevel = 8;       // zlib's default.
  constexpr size_t kPieceBytes = size_t{256} << 10;
  z_stream stream = {};
  // deflateInit2 fails only if zlib gets no memory.
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string compressed;
  int result = Z_OK;
  while (result != Z_STREAM_END) {
    const size_t num_in = std::min<size_t>(content.size(), std::numeric_limits<uInt>::max());
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
    stream.avail_in = static_cast<uInt>(num_in);
    const bool is_last = num_in == content.size();
    do {
      const size_t before = compressed.size();
      compressed.resize(before + kPieceBytes);
      stream.next_out = reinterpret_cast<Bytef*>(compressed.data() + before);
      stream.avail_out = kPieceBytes;
      result = deflate(&stream, is_last ? Z_FINISH : Z_NO_FLUSH);
      compressed.resize(before + kPieceBytes - stream.avail_out);
    } while (stream.avail_out == 0);
    content.remove_prefix(num_in);
  }
  deflateEnd(&stream);
  return compressed;
}

}  // namespace ampd
