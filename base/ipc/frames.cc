#include "base/ipc/frames.h"

#include <google/protobuf/message_lite.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/io/crc32c.h"
#include "base/io/file.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

constexpr size_t kHeaderBytes = 8;

void AppendU32(uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) {
    out->push_back(static_cast<char>(value >> shift));
  }
}

uint32_t U32At(std::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) {
    value = value << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return value;
}

absl::Status CheckLength(uint32_t length) {
  if (length > kMaxFrameBytes) {
    return absl::DataLossError(absl::StrCat("a frame of ", length, " bytes exceeds ", kMaxFrameBytes));
  }
  return absl::OkStatus();
}

absl::Status CheckPayload(std::string_view payload, uint32_t expected) {
  const uint32_t actual = Crc32c(payload);
  if (actual != expected) {
    return absl::DataLossError(absl::StrCat("a frame's checksum is ", actual, ", its header says ", expected));
  }
  return absl::OkStatus();
}

// Reads until `out` is full. Returns the number of bytes read, which is smaller only at the end of the stream.
absl::StatusOr<size_t> ReadUpTo(int fd, char* out, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = read(fd, out + done, size - done);
    if (count == 0) {
      break;
    }
    if (count < 0 && errno != EINTR) {
      return ErrnoError(errno, "read");
    }
    done += count > 0 ? static_cast<size_t>(count) : 0;
  }
  return done;
}

}  // namespace

void AppendFrame(std::string_view payload, std::string* out) {
  AppendU32(static_cast<uint32_t>(payload.size()), out);
  AppendU32(Crc32c(payload), out);
  out->append(payload);
}

void EncodeFrame(const google::protobuf::MessageLite& message, std::string* out) {
  AppendFrame(message.SerializeAsString(), out);
}

void FrameDecoder::Append(std::string_view bytes) {
  // Bytes that Next has returned are removed from the buffer here and not in Next. So the remaining bytes are moved
  // once, even if Next has returned many small frames.
  buffer_.erase(0, begin_);
  begin_ = 0;
  buffer_.append(bytes);
}

absl::StatusOr<std::optional<std::string>> FrameDecoder::Next() {
  const std::string_view rest = std::string_view(buffer_).substr(begin_);
  if (rest.size() < kHeaderBytes) {
    return std::nullopt;
  }
  const uint32_t length = U32At(rest);
  AMPD_RETURN_IF_ERROR(CheckLength(length));
  if (rest.size() < kHeaderBytes + length) {
    return std::nullopt;
  }
  const std::string_view payload = rest.substr(kHeaderBytes, length);
  AMPD_RETURN_IF_ERROR(CheckPayload(payload, U32At(rest.substr(4))));
  begin_ += kHeaderBytes + length;
  return std::string(payload);
}

absl::Status WriteFrame(int fd, const google::protobuf::MessageLite& message) {
  std::string frame;
  EncodeFrame(message, &frame);
  return WriteAll(fd, frame);
}

absl::StatusOr<std::optional<std::string>> ReadFrame(int fd) {
  char header[kHeaderBytes];
  AMPD_ASSIGN_OR_RETURN(const size_t got, ReadUpTo(fd, header, kHeaderBytes));
  if (got == 0) {
    return std::nullopt;
  }
  if (got < kHeaderBytes) {
    return absl::DataLossError("the stream ends inside a frame's header");
  }
  const std::string_view view(header, kHeaderBytes);
  const uint32_t length = U32At(view);
  AMPD_RETURN_IF_ERROR(CheckLength(length));
  std::string payload(length, '\0');
  AMPD_ASSIGN_OR_RETURN(const size_t body, ReadUpTo(fd, payload.data(), length));
  if (body < length) {
    return absl::DataLossError("the stream ends inside a frame");
  }
  AMPD_RETURN_IF_ERROR(CheckPayload(payload, U32At(view.substr(4))));
  return payload;
}

}  // namespace ampd
