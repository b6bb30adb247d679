#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/io/file.h"
#include "data/data_file.h"

namespace ampd::data {

// Reads the content of a data file, decompressed if the file starts with gzip's magic. A gzip file must have a single
// member; further bytes after it are an error. Thread-compatible.
class ByteStream {
 public:
  static absl::StatusOr<ByteStream> Open(const DataFile& file);
  ~ByteStream();
  ByteStream(ByteStream&&) noexcept;

  bool is_gzip() const { return inflater_ != nullptr; }

  // Reads up to `size` bytes and returns how many it read; fewer than `size` only at the end of the content. The last
  // read of a gzip file verifies gzip's checksum.
  absl::StatusOr<size_t> Read(uint8_t* out, size_t size);

 private:
  struct Inflater;

  ByteStream(std::string name, UniqueFd file);
  absl::Status Fill();
  absl::StatusOr<size_t> Inflate(uint8_t* out, size_t size);

  std::string name_;  // Name in messages.
  UniqueFd file_;
  std::string input_;
  size_t input_begin_ = 0;
  std::unique_ptr<Inflater> inflater_;  // Null if the file is not compressed.
};

}  // namespace ampd::data
