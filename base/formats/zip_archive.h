#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/io/file.h"

struct zip;       // libzip's
struct zip_file;  // libzip's

namespace ampd {

// The content of one entry, unpacked as it is read, its checksum verified at the end. Not beyond the archive's life.
class ZipEntry {
 public:
  // Up to `size` bytes; fewer only at the end of the content. Errors as the archive's.
  absl::StatusOr<size_t> Read(uint8_t* out, size_t size);

 private:
  friend class ZipArchive;
  struct Closer {
    void operator()(zip_file* content) const;
  };
  explicit ZipEntry(zip_file* content) : content_(content) {}

  std::unique_ptr<zip_file, Closer> content_;
};

// A ZIP archive from outside, whose directory was checked against its entries: stored or deflated content, nothing
// encrypted, no two entries of one name. How much is unpacked is up to the reader, for what the directory says of an
// entry's size is only a claim. Errors say what is wrong: DATA_LOSS where the archive is, UNAVAILABLE where the host
// can't read it (IsTroubleOfTheHost). Thread-compatible.
class ZipArchive {
 public:
  // A directory of more entries, or of more than 256 bytes for each of so many, is refused before it is read: to read
  // it takes several times its size in memory.
  static absl::StatusOr<ZipArchive> Open(UniqueFd file, int64_t max_entries);

  // In the order of the archive, as the bytes that it has.
  const std::vector<std::string>& names() const { return names_; }
  std::optional<size_t> Find(std::string_view name) const;
  // Of the archive itself, packed.
  int64_t size_bytes() const { return size_bytes_; }

  // REQUIRES: an index into names().
  absl::StatusOr<ZipEntry> OpenEntry(size_t index) const;
  // All of an entry. RESOURCE_EXHAUSTED where it has more than `max_bytes`.
  absl::StatusOr<std::string> ReadEntry(size_t index, int64_t max_bytes) const;
  // How many bytes an entry has, counted up to `most`. A packed entry is unpacked for it, and takes no memory: what the
  // directory says of its size is only a claim.
  absl::StatusOr<int64_t> SizeUpTo(size_t index, int64_t most) const;
  // The first `num_bytes` of an entry, or all of a shorter one. The checksum is verified where that is all of it.
  absl::StatusOr<std::string> ReadStart(size_t index, int64_t num_bytes) const;

 private:
  struct Closer {
    void operator()(zip* archive) const;
  };
  ZipArchive(zip* archive, int64_t size_bytes) : archive_(archive), size_bytes_(size_bytes) {}

  absl::StatusOr<std::string> ReadUpTo(size_t index, int64_t num_bytes) const;

  std::unique_ptr<zip, Closer> archive_;
  std::vector<std::string> names_;
  int64_t size_bytes_;
};

}  // namespace ampd
