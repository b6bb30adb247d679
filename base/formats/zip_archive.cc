#include "base/formats/zip_archive.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/io/host_trouble.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

// Converts an error of libzip, which is either a failed system call or a fault in the archive, to a status. `what`
// precedes the message for a fault in the archive.
absl::Status ZipError(zip_error_t* error, const std::string& what = "") {
  const int code = zip_error_code_zip(error) == ZIP_ER_MEMORY   ? ENOMEM
                   : zip_error_system_type(error) == ZIP_ET_SYS ? zip_error_code_system(error)
                                                                : 0;
  return IsTroubleOfTheHost(code) ? absl::UnavailableError(strerror(code))
                                  : absl::DataLossError(absl::StrCat(what, zip_error_strerror(error)));
}

// Converts `code`, the error of a failed open, to a status. Must be called right after the open, because part of the
// error is in errno.
absl::Status OpenError(int code) {
  if (code == ZIP_ER_NOZIP || code == ZIP_ER_MULTIDISK || code == ZIP_ER_INCONS || code == ZIP_ER_EOF) {
    return absl::DataLossError("not a sound ZIP archive: its end, which lists its files, is missing or damaged");
  }
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const absl::Status status = ZipError(&error, "not a sound ZIP archive: ");
  zip_error_fini(&error);
  return status;
}

uint64_t NumberAt(const std::string& bytes, size_t at, size_t size) {
  uint64_t number = 0;
  for (size_t i = size; i > 0; --i) {
    number = number << 8 | static_cast<uint8_t>(bytes[at + i - 1]);
  }
  return number;
}

// Reads `size` bytes at `offset`: fewer at the end of the file, none after an error.
std::string BytesAt(int file, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  const ssize_t count = pread(file, bytes.data(), size, static_cast<off_t>(offset));
  bytes.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return bytes;
}

// Returns the number of entries and the size in bytes of the archive's directory. Both are in the end record, which is
// at offset `at` of `tail`, the archive's last bytes. In a ZIP64 archive they are in another record; a locator directly
// before the end record has its position.
std::pair<uint64_t, uint64_t> DirectoryIn(int file, const std::string& tail, size_t at) {
  constexpr size_t kLocatorBytes = 20;
  constexpr size_t kLargeRecordBytes = 56;
  if (at >= kLocatorBytes && tail.compare(at - kLocatorBytes, 4, "PK\6\7") == 0) {
    const std::string large = BytesAt(file, NumberAt(tail, at - kLocatorBytes + 8, 8), kLargeRecordBytes);
    if (large.size() == kLargeRecordBytes) {
      return {NumberAt(large, 32, 8), NumberAt(large, 40, 8)};
    }
  }
  return {NumberAt(tail, at + 10, 2), NumberAt(tail, at + 12, 4)};
}

// Checks that the archive's directory has at most `max_entries` entries and not too many bytes. libzip can't check
// this, because it reads the whole directory when it opens an archive, and takes several times the directory's size in
// memory. The end record states both numbers. A hostile file may contain several end records. libzip may use any of
// them whose comment ends at the end of the file, so this function checks all of these.
absl::Status CheckDirectory(int file, int64_t file_bytes, int64_t max_entries) {
  constexpr size_t kRecordBytes = 22;
  constexpr int64_t kMaxCommentBytes = 65'535;
  constexpr uint64_t kEntryBytes = 256;  // Enough for most entries; a few may have longer names.
  const auto max_bytes = std::max<uint64_t>(static_cast<uint64_t>(max_entries) * kEntryBytes, 1 << 20);
  const int64_t size = std::min<int64_t>(file_bytes, kRecordBytes + kMaxCommentBytes + kRecordBytes);
  const std::string tail = BytesAt(file, static_cast<uint64_t>(file_bytes - size), static_cast<size_t>(size));
  for (size_t at = tail.find("PK\5\6"); at != std::string::npos; at = tail.find("PK\5\6", at + 1)) {
    if (tail.size() - at < kRecordBytes || NumberAt(tail, at + 20, 2) != tail.size() - at - kRecordBytes) {
      continue;
    }
    const auto [num_entries, num_bytes] = DirectoryIn(file, tail, at);
    if (num_entries > static_cast<uint64_t>(max_entries)) {
      return absl::DataLossError(absl::StrCat(num_entries, " entries in the archive; at most ", max_entries));
    }
    if (num_bytes > max_bytes) {
      return absl::DataLossError(
          absl::StrCat("a directory of ", num_bytes, " bytes in the archive; at most ", max_bytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void ZipEntry::Closer::operator()(zip_file* content) const { zip_fclose(content); }
void ZipArchive::Closer::operator()(zip* archive) const { zip_discard(archive); }

absl::StatusOr<size_t> ZipEntry::Read(uint8_t* out, size_t size) {
  size_t done = 0;
  while (done < size) {
    const int64_t count = zip_fread(content_.get(), out + done, size - done);
    if (count < 0) {
      return ZipError(zip_file_get_error(content_.get()));
    }
    if (count == 0) {
      break;
    }
    done += static_cast<size_t>(count);
  }
  return done;
}

absl::StatusOr<ZipArchive> ZipArchive::Open(UniqueFd file, int64_t max_entries) {
  struct stat found = {};
  if (fstat(file.get(), &found) != 0) {
    return absl::UnavailableError(strerror(errno));
  }
  AMPD_RETURN_IF_ERROR(CheckDirectory(file.get(), found.st_size, max_entries));
  int code = 0;
  zip* const opened = zip_fdopen(file.get(), ZIP_CHECKCONS, &code);
  if (opened == nullptr) {
    return OpenError(code);
  }
  file.Release();  // zip_fdopen has closed it.
  ZipArchive archive(opened, found.st_size);
  const int64_t count = zip_get_num_entries(opened, 0);
  if (count > max_entries) {
    return absl::DataLossError(absl::StrCat(count, " entries in the archive; at most ", max_entries));
  }
  for (int64_t i = 0; i < count; ++i) {
    const char* const name = zip_get_name(opened, static_cast<uint64_t>(i), ZIP_FL_ENC_RAW);
    archive.names_.emplace_back(name == nullptr ? "" : name);
  }
  return archive;
}

std::optional<size_t> ZipArchive::Find(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found == names_.end() ? std::nullopt : std::optional(static_cast<size_t>(found - names_.begin()));
}

absl::StatusOr<ZipEntry> ZipArchive::OpenEntry(size_t index) const {
  zip_stat_t stat;
  if (zip_stat_index(archive_.get(), index, 0, &stat) != 0) {
    return ZipError(zip_get_error(archive_.get()));
  }
  if (stat.encryption_method != ZIP_EM_NONE ||
      (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)) {
    return absl::DataLossError("encrypted, or compressed by another method than deflate");
  }
  zip_file* const content = zip_fopen_index(archive_.get(), index, 0);
  if (content == nullptr) {
    return ZipError(zip_get_error(archive_.get()));
  }
  return ZipEntry(content);
}

absl::StatusOr<int64_t> ZipArchive::SizeUpTo(size_t index, int64_t most) const {
  zip_stat_t stat;
  if (zip_stat_index(archive_.get(), index, 0, &stat) != 0) {
    return ZipError(zip_get_error(archive_.get()));
  }
  if (stat.comp_method == ZIP_CM_STORE && stat.encryption_method == ZIP_EM_NONE) {
    return std::min(most, static_cast<int64_t>(std::min(stat.size, stat.comp_size)));
  }
  AMPD_ASSIGN_OR_RETURN(ZipEntry entry, OpenEntry(index));
  std::vector<uint8_t> chunk(size_t{1} << 16);
  int64_t size = 0;
  while (size < most) {
    AMPD_ASSIGN_OR_RETURN(const size_t count, entry.Read(chunk.data(), chunk.size()));
    size += static_cast<int64_t>(count);
    if (count < chunk.size()) {
      break;
    }
  }
  return std::min(size, most);
}

absl::StatusOr<std::string> ZipArchive::ReadEntry(size_t index, int64_t max_bytes) const {
  AMPD_ASSIGN_OR_RETURN(std::string content, ReadUpTo(index, max_bytes));
  if (static_cast<int64_t>(content.size()) > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("more than ", max_bytes, " bytes"));
  }
  return content;
}

absl::StatusOr<std::string> ZipArchive::ReadStart(size_t index, int64_t num_bytes) const {
  AMPD_ASSIGN_OR_RETURN(std::string content, ReadUpTo(index, num_bytes));
  content.resize(std::min(content.size(), static_cast<size_t>(num_bytes)));
  return content;
}

// Reads the whole entry if it has at most `num_bytes` bytes, otherwise at least its first `num_bytes` + 1 bytes. Always
// tries to read more than `num_bytes`, because libzip verifies the checksum only when it reads past the entry's end.
// The buffer grows with the content, because the size in the directory is only a claim.
absl::StatusOr<std::string> ZipArchive::ReadUpTo(size_t index, int64_t num_bytes) const {
  constexpr size_t kChunkBytes = 1 << 16;
  AMPD_ASSIGN_OR_RETURN(ZipEntry entry, OpenEntry(index));
  std::string content;
  while (static_cast<int64_t>(content.size()) <= num_bytes) {
    const size_t before = content.size();
    content.resize(before + kChunkBytes);
    AMPD_ASSIGN_OR_RETURN(const size_t count,
                          entry.Read(reinterpret_cast<uint8_t*>(content.data()) + before, kChunkBytes));
    content.resize(before + count);
    if (count < kChunkBytes) {
      break;
    }
  }
  return content;
}

}  // namespace ampd
