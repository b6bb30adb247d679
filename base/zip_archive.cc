#include "base/zip_archive.h"

#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/host_trouble.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

// What libzip met: a call that failed, or what does not please it in the archive; `what` goes before that.
absl::Status ZipError(zip_error_t* error, const std::string& what = "") {
  const int code = zip_error_code_zip(error) == ZIP_ER_MEMORY   ? ENOMEM
                   : zip_error_system_type(error) == ZIP_ET_SYS ? zip_error_code_system(error)
                                                                : 0;
  return IsTroubleOfTheHost(code) ? absl::UnavailableError(strerror(code))
                                  : absl::DataLossError(absl::StrCat(what, zip_error_strerror(error)));
}

// At once after a call that told `code`: a part of the error is in errno.
absl::Status OpenError(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const absl::Status status = ZipError(&error, "not a sound ZIP archive: ");
  zip_error_fini(&error);
  return status;
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
  int code = 0;
  zip* const opened = zip_fdopen(file.get(), ZIP_CHECKCONS, &code);
  if (opened == nullptr) {
    return OpenError(code);
  }
  file.Release();  // zip_fdopen has closed it
  ZipArchive archive(opened);
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

absl::StatusOr<std::string> ZipArchive::ReadEntry(size_t index, int64_t max_bytes) const {
  constexpr size_t kChunkBytes = 1 << 16;
  AMPD_ASSIGN_OR_RETURN(ZipEntry entry, OpenEntry(index));
  std::string content;
  for (;;) {
    const size_t before = content.size();
    content.resize(before + kChunkBytes);
    AMPD_ASSIGN_OR_RETURN(const size_t count,
                          entry.Read(reinterpret_cast<uint8_t*>(content.data()) + before, kChunkBytes));
    content.resize(before + count);
    if (static_cast<int64_t>(content.size()) > max_bytes) {
      return absl::DataLossError(absl::StrCat("more than ", max_bytes, " bytes"));
    }
    if (count < kChunkBytes) {
      return content;
    }
  }
}

}  // namespace ampd
