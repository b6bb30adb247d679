#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/io/file.h"

namespace ampd::text {

// A text file that is read in pieces. Each piece ends before white space that follows something else, because a token
// ends there. A UTF-8 byte order mark at the beginning is skipped, unless arbitrary bytes are wanted. Messages name the
// file. Thread-compatible.
class TextFile {
 public:
  // DATA_LOSS if the content is certainly not text (base/formats/content_kind.h), for example compressed, unless
  // `any_format` accepts it.
  static absl::StatusOr<TextFile> Open(const std::string& path, bool any_format = false);

  // The next piece, valid until the next call; empty at the end. With `any_bytes` it may be cut anywhere and hold
  // anything. Without, DATA_LOSS naming the byte that is not UTF-8, or if kMaxPieceBytes have no place to cut.
  absl::StatusOr<std::string_view> Next(bool any_bytes);
  // The next line, without its end, under the same rules. `found` is false at the end of the file.
  absl::StatusOr<std::string_view> NextLine(bool* found);

  int64_t num_bytes() const { return num_bytes_; }  // Size of the file when it was opened.
  int64_t num_read() const { return num_read_; }    // Bytes of the pieces returned so far.
  bool is_json() const { return is_json_; }         // The text begins with a JSON object or list.

  static constexpr size_t kMaxPieceBytes = size_t{64} << 20;

 private:
  TextFile(std::string path, UniqueFd file, int64_t num_bytes);
  absl::Status CheckContent(bool any_format);
  absl::Status Fill(size_t num_bytes);
  void SkipMark();
  absl::StatusOr<std::string_view> Take(size_t num_bytes, size_t dropped, bool any_bytes);

  std::string path_;
  UniqueFd file_;
  int64_t num_bytes_ = 0;
  int64_t num_read_ = 0;
  std::string buffer_;
  size_t begin_ = 0;  // Start of the unread bytes in the buffer.
  bool at_end_ = false;
  bool is_json_ = false;
};

}  // namespace ampd::text
