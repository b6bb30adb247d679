#include "base/formats/zip_writer.h"

#include <zip.h>

#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"

namespace ampd {
namespace {

// The time and date of every entry: 1980-01-01 00:00, the earliest that a ZIP archive can hold.
constexpr zip_uint16_t kFirstTime = 0;
constexpr zip_uint16_t kFirstDate = 1 << 5 | 1;

struct FreeSource {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
struct DiscardArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};

absl::Status WriteError(zip_error_t* error) {
  return absl::ResourceExhaustedError(absl::StrCat("cannot write a ZIP archive: ", zip_error_strerror(error)));
}

absl::Status Add(zip_t* archive, const std::string& name, const std::string& content) {
  zip_source_t* const source = zip_source_buffer(archive, content.data(), content.size(), /*freep=*/0);
  if (source == nullptr) {
    return WriteError(zip_get_error(archive));
  }
  const zip_int64_t index = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    return WriteError(zip_get_error(archive));
  }
  const auto entry = static_cast<zip_uint64_t>(index);
  return zip_set_file_compression(archive, entry, ZIP_CM_STORE, 0) == 0 &&
                 zip_file_set_dostime(archive, entry, kFirstTime, kFirstDate, 0) == 0
             ? absl::OkStatus()
             : WriteError(zip_get_error(archive));
}

absl::StatusOr<std::string> ReadAll(zip_source_t* source) {
  zip_stat_t stat;
  if (zip_source_stat(source, &stat) != 0 || zip_source_open(source) != 0) {
    return WriteError(zip_source_error(source));
  }
  std::string bytes(stat.size, '\0');
  const zip_int64_t count = zip_source_read(source, bytes.data(), bytes.size());
  zip_source_close(source);
  return count == static_cast<zip_int64_t>(bytes.size()) ? absl::StatusOr<std::string>(std::move(bytes))
                                                         : WriteError(zip_source_error(source));
}

}  // namespace

absl::StatusOr<std::string> ZipOf(const std::vector<std::pair<std::string, std::string>>& entries) {
  zip_error_t error;
  zip_error_init(&error);
  const std::unique_ptr<zip_source_t, FreeSource> target(zip_source_buffer_create(nullptr, 0, 0, &error));
  std::unique_ptr<zip_t, DiscardArchive> archive(
      target == nullptr ? nullptr : zip_open_from_source(target.get(), ZIP_TRUNCATE, &error));
  const absl::Status opened = archive == nullptr ? WriteError(&error) : absl::OkStatus();
  zip_error_fini(&error);
  if (!opened.ok()) {
    return opened;
  }
  zip_source_keep(target.get());  // The archive and `target` own the source, which outlives the archive.
  for (const auto& [name, content] : entries) {
    if (const absl::Status added = Add(archive.get(), name, content); !added.ok()) {
      return added;
    }
  }
  if (zip_close(archive.get()) != 0) {
    return WriteError(zip_get_error(archive.get()));
  }
  (void)archive.release();  // Closing freed it.
  return ReadAll(target.get());
}

}  // namespace ampd
