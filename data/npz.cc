#include "data/npz.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/formats/safetensors_json.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "data/npy.h"

namespace ampd::data {
namespace {

constexpr char kSuffix[] = ".npy";

}  // namespace

absl::StatusOr<NpzFile> NpzFile::Open(const DataFile& file) {
  AMPD_ASSIGN_OR_RETURN(UniqueFd opened, OpenDataFile(file));
  auto archive = ZipArchive::Open(std::move(opened), kMaxNpzEntries);
  if (!archive.ok()) {
    return ArchiveError(file.name, archive.status());
  }
  NpzFile npz(file.name, *std::move(archive));
  AMPD_RETURN_IF_ERROR(npz.List());
  return npz;
}

absl::Status NpzFile::List() {
  for (size_t i = 0; i < archive_.names().size(); ++i) {
    std::string name = archive_.names()[i];
    if (!absl::EndsWith(name, kSuffix)) {
      continue;
    }
    if (!IsUtf8(name)) {
      return DataError(file_, absl::StrCat("the name of an entry is not UTF-8: ", absl::CEscape(name)));
    }
    name.resize(name.size() - (sizeof(kSuffix) - 1));
    // `name` is now the name of the array. If the archive also has an entry of exactly this name, NumPy reads that
    // entry as the array, so such an archive is ambiguous.
    if (archive_.Find(name).has_value()) {
      return DataError(file_, absl::StrCat("the archive has entries \"", absl::CEscape(name), "\" and \"",
                                           absl::CEscape(name), kSuffix, "\": the name of an array twice"));
    }
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
  auto entry = archive_.OpenEntry(entries_[found - names_.begin()]);
  if (!entry.ok()) {
    return ArchiveError(what, entry.status());
  }
  const auto source = [&](uint8_t* out, size_t size) -> absl::StatusOr<size_t> {
    auto count = entry->Read(out, size);
    return count.ok() ? std::move(count) : ArchiveError(what, count.status());
  };
  return ReadNpy(source, what, limit);
}

}  // namespace ampd::data
