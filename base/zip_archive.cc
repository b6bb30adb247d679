#include "base/zip_archive.h"

#include <zip.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace ampd {

void ZipEntry::Closer::operator()(zip_file* content) const { zip_fclose(content); }
void ZipArchive::Closer::operator()(zip* archive) const { zip_discard(archive); }

absl::StatusOr<size_t> ZipEntry::Read(uint8_t* out, size_t size) {
  size_t done = 0;
  while (done < size) {
    const int64_t count = zip_fread(content_.get(), out + done, size - done);
    if (count < 0) {
      return absl::DataLossError(zip_file_strerror(content_.get()));
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
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const absl::Status status =
        absl::DataLossError(absl::StrCat("not a sound ZIP archive: ", zip_error_strerror(&error)));
    zip_error_fini(&error);
    return status;
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
    return absl::DataLossError(zip_strerror(archive_.get()));
  }
  if (stat.encryption_method != ZIP_EM_NONE ||
      (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)) {
    return absl::DataLossError("encrypted, or compressed by another method than deflate");
  }
  zip_file* const content = zip_fopen_index(archive_.get(), index, 0);
  if (content == nullptr) {
    return absl::DataLossError(zip_strerror(archive_.get()));
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
