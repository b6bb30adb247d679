#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/io/file.h"

namespace ampd::text {

// A text file that is read in pieces. Cutting the text must not change its tokens, so each piece ends between a word
// and the white space after it. A UTF-8 byte order mark at the beginning is skipped, unless the caller asks for
// arbitrary bytes. Error messages name the file. Thread-compatible.
class TextFile {
 public:
  // Opens a text file. Returns DATA_LOSS if the content is certainly not text (base/formats/content_kind.h), for
  // example compressed; `any_format` accepts such a file too.
  static absl::StatusOr<TextFile> Open(const std::string& path, bool any_format = false);

  // Returns the next piece, which is valid until the next call and empty at the end of the file. With `any_bytes` a
  // piece may be cut anywhere and contain any bytes. Without it, returns DATA_LOSS if a byte is not UTF-8 (the message
  // names it), or if kMaxPieceBytes contain no white space at which to cut.
  absl::StatusOr<std::string_view> Next(bool any_bytes);
  // Returns the next line without its line break, "\n" or "\r\n". Returns DATA_LOSS if the line is not UTF-8, or has
  // more than kMaxPieceBytes / 2 bytes. Sets `found` to false at the end of the file.
  absl::StatusOr<std::string_view> NextLine(bool* found);
  // The line break of the line that NextLine returned last: "\n" or "\r\n".
  std::string_view line_break() const { return has_return_ ? "\r\n" : "\n"; }

  int64_t num_bytes() const { return num_bytes_; }  // Size of the file when it was opened.
  int64_t num_read() const { return num_read_; }    // Size of the part of the file that was returned so far.
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
  bool has_return_ = false;  // The last line ended with "\r\n".
};

}  // namespace ampd::text
