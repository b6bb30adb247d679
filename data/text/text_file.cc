#include "data/text/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/formats/content_kind.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "data/text/utf8.h"

namespace ampd::text {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

bool IsAsciiSpace(char byte) { return byte == ' ' || byte == '\n'; }

// Whether the byte is an ASCII letter, digit or sign, so that it is certainly not white space. False for white space,
// control characters and the bytes of characters beyond ASCII.
bool IsAsciiWord(char byte) { return byte > ' ' && byte < 0x7F; }

// The last position in `text` at which the text may be cut into pieces: before white space that follows a word. 0 if
// there is none.
size_t LastCut(std::string_view text) {
  for (size_t at = text.size(); at-- > 1;) {
    if (IsAsciiSpace(text[at]) && IsAsciiWord(text[at - 1])) {
      return at;
    }
  }
  return 0;
}

}  // namespace

TextFile::TextFile(std::string path, UniqueFd file, int64_t num_bytes)
    : path_(std::move(path)), file_(std::move(file)), num_bytes_(num_bytes) {}

absl::StatusOr<TextFile> TextFile::Open(const std::string& path, bool any_format) {
  // Without O_NONBLOCK, opening a pipe waits until somebody writes to it.
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!file.ok() || fstat(file.get(), &status) != 0) {
    const absl::Status error = ErrnoError(errno, "cannot be opened");
    return {error.code() == absl::StatusCode::kNotFound
                ? absl::NotFoundError(absl::StrCat(path, ": no such file"))
                : absl::Status(error.code(), absl::StrCat(path, ": ", error.message()))};
  }
  if (!S_ISREG(status.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": is no regular file"));
  }
  TextFile text(path, std::move(file), status.st_size);
  AMPD_RETURN_IF_ERROR(text.CheckContent(any_format));
  return text;
}

absl::Status TextFile::CheckContent(bool any_format) {
  constexpr size_t kLookedAtBytes = size_t{1} << 16;
  AMPD_RETURN_IF_ERROR(Fill(kLookedAtBytes));
  const Content content = ContentOf(buffer_, num_bytes_);
  is_json_ = content.kind == ContentKind::kJson;
  const bool may_be_text = !content.is_certain || is_json_ || content.kind == ContentKind::kText ||
                           content.kind == ContentKind::kUnknown || content.kind == ContentKind::kEmpty;
  // ContentOf does not know every binary format. A text may have a byte of the value 0, which is a character of UTF-8.
  const std::optional<size_t> not_utf8 = FirstInvalidUtf8(buffer_);
  constexpr size_t kMostBytesOfCharacter = 4;  // The end of the buffer may cut a character.
  const bool is_utf8 = !not_utf8.has_value() || *not_utf8 + kMostBytesOfCharacter > buffer_.size();
  if (may_be_text && !any_format && !is_utf8 && buffer_.find('\0') != std::string::npos) {
    return absl::DataLossError(
        absl::StrCat(path_, ": has bytes of the value 0 and bytes that are not UTF-8, and is no text"));
  }
  return may_be_text || any_format
             ? absl::OkStatus()
             : absl::DataLossError(absl::StrCat(path_, ": is ", NameOf(content.kind), ", and no text"));
}

void TextFile::SkipMark() {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (num_read_ == 0 && std::string_view(buffer_).substr(begin_).starts_with(kMark)) {
    begin_ += kMark.size();
    num_read_ += static_cast<int64_t>(kMark.size());
  }
}

// Reads from the file until the buffer has at least `num_bytes` unread bytes, or all that remain in the file.
absl::Status TextFile::Fill(size_t num_bytes) {
  buffer_.erase(0, std::exchange(begin_, 0));
  while (buffer_.size() < num_bytes && !at_end_) {
    const size_t filled = buffer_.size();
    buffer_.resize(num_bytes);
    const ssize_t count = read(file_.get(), buffer_.data() + filled, num_bytes - filled);
    buffer_.resize(filled + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0 && errno != EINTR) {
      return absl::DataLossError(absl::StrCat(path_, ": ", ErrnoError(errno, "cannot be read").message()));
    }
    at_end_ = count == 0;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> TextFile::Take(size_t num_bytes, size_t dropped, bool any_bytes) {
  const std::string_view piece = std::string_view(buffer_).substr(begin_, num_bytes);
  const size_t invalid = any_bytes ? std::string_view::npos : FindInvalidUtf8(piece);
  if (invalid != std::string_view::npos) {
    return absl::DataLossError(absl::StrCat(path_, ": byte ", num_read_ + static_cast<int64_t>(invalid),
                                            " is not UTF-8; iconv -t UTF-8 converts other encodings"));
  }
  begin_ += num_bytes + dropped;
  num_read_ += static_cast<int64_t>(num_bytes + dropped);
  return piece;
}

absl::StatusOr<std::string_view> TextFile::Next(bool any_bytes) {
  for (size_t wanted = kPieceBytes; wanted <= kMaxPieceBytes; wanted *= 2) {
    AMPD_RETURN_IF_ERROR(Fill(wanted));
    if (!any_bytes) {
      SkipMark();
    }
    const std::string_view waiting = std::string_view(buffer_).substr(begin_);
    const size_t cut = at_end_ || any_bytes ? waiting.size() : LastCut(waiting);
    if (cut > 0 || waiting.empty()) {
      return Take(cut, 0, any_bytes);
    }
  }
  return absl::DataLossError(
      absl::StrCat(path_, ": no white space in ", kMaxPieceBytes, " bytes from byte ", num_read_, " on; is it text?"));
}

absl::StatusOr<std::string_view> TextFile::NextLine(bool* found) {
  SkipMark();
  size_t from = begin_;
  for (size_t wanted = kPieceBytes; wanted <= kMaxPieceBytes; wanted *= 2) {
    const size_t end = buffer_.find('\n', from);
    if (end != std::string::npos || (at_end_ && begin_ < buffer_.size())) {
      *found = true;
      const bool has_end = end != std::string::npos;
      const size_t size = (has_end ? end : buffer_.size()) - begin_;
      has_return_ = size > 0 && buffer_[begin_ + size - 1] == '\r';
      return Take(size - (has_return_ ? 1 : 0), (has_end ? 1 : 0) + (has_return_ ? 1 : 0), /*any_bytes=*/false);
    }
    if (at_end_) {
      *found = false;
      return std::string_view();
    }
    from = buffer_.size() - begin_;
    AMPD_RETURN_IF_ERROR(Fill(wanted));
  }
  return absl::DataLossError(
      absl::StrCat(path_, ": a line from byte ", num_read_, " on has more than ", kMaxPieceBytes / 2, " bytes"));
}

}  // namespace ampd::text
