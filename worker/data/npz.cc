#include "worker/data/npz.h"

#include <zip.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/safetensors_json.h"
#include "base/status_macros.h"
#include "worker/data/npy.h"

namespace ampd::data {
namespace {

constexpr char kSuffix[] = ".npy";

// What libzip met: a call that failed, or what does not please it in the archive; `what` goes before that.
absl::Status ZipError(const std::string& name, const std::string& what, zip_error_t* error) {
  const int code = zip_error_code_zip(error) == ZIP_ER_MEMORY   ? ENOMEM
                   : zip_error_system_type(error) == ZIP_ET_SYS ? zip_error_code_system(error)
                                                                : 0;
  return IsTroubleOfTheHost(code) ? FileError(name, code) : DataError(name, what + zip_error_strerror(error));
}

// At once after a call that told `code`: a part of the error is in errno.
absl::Status ArchiveError(const std::string& name, int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const absl::Status status = ZipError(name, "not a sound ZIP archive: ", &error);
  zip_error_fini(&error);
  return status;
}

}  // namespace

void NpzFile::Closer::operator()(zip* archive) const { zip_discard(archive); }

NpzFile::NpzFile(std::string file, std::unique_ptr<zip, Closer> archive)
    : file_(std::move(file)), archive_(std::move(archive)) {}
NpzFile::~NpzFile() = default;
NpzFile::NpzFile(NpzFile&&) noexcept = default;

absl::StatusOr<NpzFile> NpzFile::Open(const DataFile& file) {
  AMPD_ASSIGN_OR_RETURN(UniqueFd opened, OpenDataFile(file));
  int error = 0;
  std::unique_ptr<zip, Closer> archive(zip_fdopen(opened.get(), ZIP_CHECKCONS, &error));
  if (archive == nullptr) {
    return ArchiveError(file.name, error);
  }
  opened.Release();  // zip_fdopen has closed it
  NpzFile npz(file.name, std::move(archive));
  AMPD_RETURN_IF_ERROR(npz.List());
  return npz;
}

absl::Status NpzFile::List() {
  const int64_t count = zip_get_num_entries(archive_.get(), 0);
  if (count > kMaxNpzEntries) {
    return DataError(file_, absl::StrCat(count, " entries in the archive; at most ", kMaxNpzEntries));
  }
  for (int64_t i = 0; i < count; ++i) {  // libzip refuses two entries of one name
    const char* raw = zip_get_name(archive_.get(), i, ZIP_FL_ENC_RAW);
    std::string name = raw == nullptr ? "" : raw;
    if (!absl::EndsWith(name, kSuffix)) {
      continue;
    }
    if (!IsUtf8(name)) {
      return DataError(file_, absl::StrCat("the name of an entry is not UTF-8: ", absl::CEscape(name)));
    }
    name.resize(name.size() - (sizeof(kSuffix) - 1));
    names_.push_back(std::move(name));
    entries_.push_back(i);
  }
  return names_.empty() ? DataError(file_, "the archive has no array, no entry that ends in .npy") : absl::OkStatus();
}

absl::StatusOr<Array> NpzFile::Read(const std::string& name, int64_t limit) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) {
    return DataError(file_, absl::StrCat("it has no array \"", absl::CEscape(name), "\"; it has ", SomeNames(names_)));
  }
  const std::string what = absl::StrCat(file_, ": array \"", absl::CEscape(name), "\"");
  const int64_t entry = entries_[found - names_.begin()];
  zip_stat_t stat;
  if (zip_stat_index(archive_.get(), entry, 0, &stat) != 0) {
    return ZipError(what, "", zip_get_error(archive_.get()));
  }
  if (stat.encryption_method != ZIP_EM_NONE ||
      (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)) {
    return DataError(what, "encrypted, or compressed by another method than deflate");
  }
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> content(zip_fopen_index(archive_.get(), entry, 0),
                                                                  zip_fclose);
  if (content == nullptr) {
    return ZipError(what, "", zip_get_error(archive_.get()));
  }
  const auto source = [&](uint8_t* out, size_t size) -> absl::StatusOr<size_t> {
    size_t done = 0;
    while (done < size) {
      const int64_t count = zip_fread(content.get(), out + done, size - done);
      if (count < 0) {
        return ZipError(what, "", zip_file_get_error(content.get()));
      }
      if (count == 0) {
        break;
      }
      done += count;
    }
    return done;
  };
  return ReadNpy(source, what, limit);
}

}  // namespace ampd::data
