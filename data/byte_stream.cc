#include "data/byte_stream.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/status_macros.h"

namespace ampd::data {
namespace {

constexpr size_t kInputBytes = 1 << 16;
constexpr int kGzipOnly = 16 + MAX_WBITS;

}  // namespace

struct ByteStream::Inflater {
  Inflater() { valid = inflateInit2(&stream, kGzipOnly) == Z_OK; }
  ~Inflater() {
    if (valid) {
      inflateEnd(&stream);
    }
  }
  z_stream stream = {};
  bool valid = false;
  bool ended = false;
};

ByteStream::ByteStream(std::string name, UniqueFd file) : name_(std::move(name)), file_(std::move(file)) {}
ByteStream::~ByteStream() = default;
ByteStream::ByteStream(ByteStream&&) noexcept = default;

absl::StatusOr<ByteStream> ByteStream::Open(const DataFile& file) {
  AMPD_ASSIGN_OR_RETURN(UniqueFd opened, OpenDataFile(file));
  ByteStream stream(file.name, std::move(opened));
  AMPD_RETURN_IF_ERROR(stream.Fill());
  if (stream.input_.compare(0, 2, "\x1f\x8b") == 0) {
    stream.inflater_ = std::make_unique<Inflater>();
    if (!stream.inflater_->valid) {
      return FileError(file.name, ENOMEM);
    }
  }
  return stream;
}

absl::Status ByteStream::Fill() {
  input_.resize(kInputBytes);
  input_begin_ = 0;
  ssize_t count = 0;
  do {
    count = read(file_.get(), input_.data(), input_.size());
  } while (count < 0 && errno == EINTR);
  const int error = count < 0 ? errno : 0;
  input_.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return error != 0 ? FileError(name_, error) : absl::OkStatus();
}

absl::StatusOr<size_t> ByteStream::Read(uint8_t* out, size_t size) {
  if (inflater_ != nullptr) {
    return Inflate(out, size);
  }
  size_t done = 0;
  while (done < size) {
    if (input_begin_ == input_.size()) {
      AMPD_RETURN_IF_ERROR(Fill());
      if (input_.empty()) {
        break;
      }
    }
    const size_t count = std::min(size - done, input_.size() - input_begin_);
    std::memcpy(out + done, input_.data() + input_begin_, count);
    input_begin_ += count;
    done += count;
  }
  return done;
}

absl::StatusOr<size_t> ByteStream::Inflate(uint8_t* out, size_t size) {
  z_stream& stream = inflater_->stream;
  size_t done = 0;
  while (done < size && !inflater_->ended) {
    if (input_begin_ == input_.size()) {
      AMPD_RETURN_IF_ERROR(Fill());
      if (input_.empty()) {
        return DataError(name_, "the gzip stream is cut off");
      }
    }
    const size_t wanted = std::min<size_t>(size - done, 1 << 30);
    stream.next_in = reinterpret_cast<Bytef*>(input_.data() + input_begin_);
    stream.avail_in = static_cast<uInt>(input_.size() - input_begin_);
    stream.next_out = out + done;
    stream.avail_out = static_cast<uInt>(wanted);
    const int result = inflate(&stream, Z_NO_FLUSH);
    input_begin_ = input_.size() - stream.avail_in;
    done += wanted - stream.avail_out;
    inflater_->ended = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      return DataError(name_, "the gzip stream is damaged");
    }
  }
  if (done < size && input_begin_ == input_.size()) {
    AMPD_RETURN_IF_ERROR(Fill());
  }
  if (done < size && input_begin_ < input_.size()) {
    return DataError(name_, "bytes follow the gzip stream");
  }
  return done;
}

}  // namespace ampd::data
