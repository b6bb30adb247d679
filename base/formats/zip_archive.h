#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/io/file.h"

struct zip;       // libzip's type.
struct zip_file;  // libzip's type.

namespace ampd {

// Reads the content of one archive entry. The content is unpacked as it is read, and its checksum is verified at the
// end. A ZipEntry must not outlive its archive.
class ZipEntry {
 public:
  // Reads up to `size` bytes and returns how many it read; fewer than `size` only at the end of the content. Returns
  // the errors that ZipArchive describes.
  absl::StatusOr<size_t> Read(uint8_t* out, size_t size);

 private:
  friend class ZipArchive;
  struct Closer {
    void operator()(zip_file* content) const;
  };
  explicit ZipEntry(zip_file* content) : content_(content) {}

  std::unique_ptr<zip_file, Closer> content_;
};

// A ZIP archive from an untrusted source. Open checks that the archive's directory agrees with its entries. Only
// entries that are stored or deflated and not encrypted can be read, and no two entries have the same name. The size of
// an entry in the archive's directory is only a claim, so the reader has to limit how much it unpacks. An error is
// DATA_LOSS if the archive is wrong (the message names the fault), and UNAVAILABLE if the host can't read it
// (IsTroubleOfTheHost). Thread-compatible.
class ZipArchive {
 public:
  // Opens an archive. Returns DATA_LOSS if its directory has more than `max_entries` entries, or more bytes than the
  // larger of 1 MiB and 256 * `max_entries`. Both are checked before the directory is read, because reading it takes
  // several times its size in memory.
  static absl::StatusOr<ZipArchive> Open(UniqueFd file, int64_t max_entries);

  // The entries' names as raw bytes, in the order of the archive.
  const std::vector<std::string>& names() const { return names_; }
  std::optional<size_t> Find(std::string_view name) const;
  // The size of the archive file itself.
  int64_t size_bytes() const { return size_bytes_; }

  // Opens the entry for reading. REQUIRES: `index` is an index into names().
  absl::StatusOr<ZipEntry> OpenEntry(size_t index) const;
  // Reads a whole entry. RESOURCE_EXHAUSTED if its content has more than `max_bytes`.
  absl::StatusOr<std::string> ReadEntry(size_t index, int64_t max_bytes) const;
  // The size of an entry's content, or `most` if the content is larger. A packed entry is unpacked to count its bytes,
  // because its size in the directory is only a claim; the content is not kept.
  absl::StatusOr<int64_t> SizeUpTo(size_t index, int64_t most) const;
  // Reads the first `num_bytes` of an entry, or the whole entry if it is shorter. The checksum is verified only if the
  // whole entry is read.
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
