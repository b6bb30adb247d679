#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace google::protobuf {
class MessageLite;
}

// Messages on a byte stream between processes of one host:
//
//   stream := frame*
//   frame  := length crc payload
//   length := u32, little-endian: bytes of the payload, at most kMaxFrameBytes
//   crc    := u32, little-endian: CRC-32C of the payload
//   payload := one serialized protobuf message, agreed on by both ends
namespace ampd {

inline constexpr uint32_t kMaxFrameBytes = 64u << 20;

// Appends the frame of `payload` to `out`. REQUIRES: payload is at most kMaxFrameBytes.
void AppendFrame(std::string_view payload, std::string* out);

// Appends the frame of `message` to `out`. REQUIRES: it serializes to at most kMaxFrameBytes.
void EncodeFrame(const google::protobuf::MessageLite& message, std::string* out);

// Cuts a byte stream into payloads. After an error the rest of the stream can't be decoded: close it.
// Thread-compatible.
class FrameDecoder {
 public:
  void Append(std::string_view bytes);

  // Returns the next whole payload, nullopt if more bytes are needed, or DATA_LOSS for a frame that is too long or has
  // a wrong checksum.
  absl::StatusOr<std::optional<std::string>> Next();

 private:
  std::string buffer_;
  size_t begin_ = 0;  // Offset of the first byte not yet returned.
};

// Write or read one frame on a file descriptor, and block until it is complete. ReadFrame returns nullopt at the end of
// the stream, and DATA_LOSS if the stream ends inside a frame.
absl::Status WriteFrame(int fd, const google::protobuf::MessageLite& message);
absl::StatusOr<std::optional<std::string>> ReadFrame(int fd);

}  // namespace ampd
