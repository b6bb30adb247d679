#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/io/file.h"

namespace ampd::text {

// A text that is read piece by piece, each cut in front of white space that follows something else, where tokens end.
// A mark of UTF-8 at its beginning is no part of it, but where any bytes are wanted. Messages name the file.
// Thread-compatible.
class TextFile {
 public:
  // DATA_LOSS for a file whose content is surely no text (base/formats/content_kind.h), as one that is compressed is
  // not, unless `any_format` takes it all the same.
  static absl::StatusOr<TextFile> Open(const std::string& path, bool any_format = false);

  // The next piece, valid until the next call; empty at the end. With `any_bytes` it may be cut anywhere and hold
  // anything; without, DATA_LOSS naming the byte where it is not UTF-8, and where kMaxPieceBytes have no place to cut.
  absl::StatusOr<std::string_view> Next(bool any_bytes);
  // The next line, without its end; likewise. False in `found` at the end of the file.
  absl::StatusOr<std::string_view> NextLine(bool* found);

  int64_t num_bytes() const { return num_bytes_; }  // of the file, when it was opened
  int64_t num_read() const { return num_read_; }    // of the pieces that were given out
  bool is_json() const { return is_json_; }         // it begins with an object or a list of JSON

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
  size_t begin_ = 0;  // of what is not given out, in the buffer
  bool at_end_ = false;
  bool is_json_ = false;
};

}  // namespace ampd::text
