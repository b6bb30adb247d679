// The functions of ArtifactStore that open the store, and make its folder and its index consistent.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/artifacts/artifact_store.h"

namespace ampd::server {
namespace {

constexpr char kPartialSuffix[] = ".partial";

// Returns the key of the upload whose partial file has this name, or an empty string if the file is no partial file.
// This is the inverse of PartialPathOf.
std::string KeyOfPartial(std::string_view file_name) {
  if (!file_name.ends_with(kPartialSuffix)) {
    return "";
  }
  file_name.remove_suffix(std::string_view(kPartialSuffix).size());
  const size_t dot = file_name.find('.');
  const std::string sha256(file_name.substr(dot == std::string_view::npos ? 0 : dot + 1));
  const std::string tenant(dot == std::string_view::npos ? kDefaultTenant : file_name.substr(0, dot));
  return CheckDigest("", sha256).ok() && CheckTenantName("", tenant).ok() ? UploadKey(tenant, sha256) : "";
}

// Returns the digest in the key of an upload.
std::string DigestOf(const std::string& key) { return key.substr(key.find('/') + 1); }

}  // namespace

absl::StatusOr<std::unique_ptr<ArtifactStore>> ArtifactStore::Open(Options options) {
  if (mkdir(options.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "make the folder of artifacts");
  }
  AMPD_ASSIGN_OR_RETURN(ArtifactIndex index, ArtifactIndex::Open(options.index_path));
  std::unique_ptr<ArtifactStore> store(new ArtifactStore(std::move(options), std::move(index)));
  AMPD_RETURN_IF_ERROR(store->Recover());
  return store;
}

std::string ArtifactStore::PartialPathOf(const std::string& key) const {
  return absl::StrCat(PathOf(absl::StrReplaceAll(key, {{"/", "."}})), kPartialSuffix);
}

// Makes the folder and the index consistent. The store writes a file before it records the file's name in the index, so
// after a crash a file may have no name. A name has no file only if somebody removed the file.
absl::Status ArtifactStore::Recover() {
  absl::MutexLock index_lock(&index_mutex_);
  Found found;
  AMPD_ASSIGN_OR_RETURN(found.contents, index_.Contents());
  AMPD_RETURN_IF_ERROR(DropNamesWithoutContent(&found.contents));
  AMPD_ASSIGN_OR_RETURN(const std::vector<ArtifactRow> rows, index_.Uploads());
  for (const ArtifactRow& row : rows) {
    found.uploads.insert(KeyOf(row.artifact));
  }
  std::error_code error;
  std::filesystem::directory_iterator entry(options_.folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    // Skips entries that are not regular files, such as "lost+found", because they do not belong to the store. Ignores
    // `gone`, because such an error only means that an entry was deleted after it was listed.
    std::error_code gone;
    if (entry->is_regular_file(gone)) {
      found.file_names.insert(entry->path().filename().string());
    }
  }
  if (error) {
    return ErrnoError(error.value(), "read the folder of artifacts");
  }
  for (const std::string& file_name : found.file_names) {
    if (const std::string key = KeyOfPartial(file_name); !key.empty()) {
      found.partials.insert(DigestOf(key));
    }
  }
  for (const std::string& file_name : found.file_names) {
    AMPD_RETURN_IF_ERROR(RecoverFile(file_name, found));
  }
  absl::MutexLock lock(&mutex_);
  for (const ArtifactRow& row : rows) {
    uploads_[KeyOf(row.artifact)] = {0, false, row.use_time, row.use_time};
  }
  return absl::OkStatus();
}

absl::Status ArtifactStore::RecoverFile(const std::string& file_name, const Found& found) {
  if (found.contents.contains(file_name)) {
    absl::MutexLock lock(&mutex_);
    num_bytes_ += found.contents.at(file_name);
    return absl::OkStatus();
  }
  const bool has_partial = found.partials.contains(file_name);
  const std::string key = CheckDigest("", file_name).ok() && !has_partial ? file_name : KeyOfPartial(file_name);
  if (key.empty() || found.uploads.contains(key)) {
    // This file can be deleted: it is a temporary file, the partial file of an upload that is complete, or the second
    // name of a partial file.
    return unlink(PathOf(file_name).c_str()) == 0 ? absl::OkStatus() : ErrnoError(errno, "remove a file");
  }
  if (key == file_name) {  // An older server left a complete file without a name in the index.
    if (rename(PathOf(key).c_str(), PartialPathOf(key).c_str()) != 0) {
      return ErrnoError(errno, "rename a file");
    }
    LogRepair("kept a file without a name as an upload that broke off", key);
  }
  struct stat status = {};
  if (stat(PartialPathOf(key).c_str(), &status) != 0) {
    return ErrnoError(errno, "stat");
  }
  absl::MutexLock lock(&mutex_);
  partials_[key] = {status.st_size, 0, 0, false, absl::FromTimeT(status.st_mtime)};
  num_bytes_ += status.st_size;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ArtifactStore::FindMissing(
    const std::map<std::string, int64_t>& contents) const {
  std::vector<std::string> missing;
  for (const auto& [sha256, size_bytes] : contents) {
    if (access(PathOf(sha256).c_str(), F_OK) == 0) {
      continue;
    }
    // Only ENOENT shows that the file is gone. After any other error the file may still exist, so its name must stay: a
    // dropped name cannot be restored.
    if (errno != ENOENT) {
      return ErrnoError(errno, absl::StrCat("look for the file of artifact ", sha256));
    }
    missing.push_back(sha256);
  }
  return missing;
}

absl::Status ArtifactStore::DropNamesWithoutContent(std::map<std::string, int64_t>* contents) {
  AMPD_ASSIGN_OR_RETURN(const std::vector<std::string> missing, FindMissing(*contents));
  // A folder that is on another disk is empty if that disk was not mounted. Without their names, the server would later
  // take its files for broken uploads, and delete them.
  if (!missing.empty() && missing.size() == contents->size()) {
    return Error(absl::StatusCode::kFailedPrecondition, "DATA_DIRECTORY_UNUSABLE",
                 absl::StrCat("the folder ", options_.folder, " has none of the ", missing.size(),
                              " files of artifacts that ", options_.index_path,
                              " names; if the folder is on another disk, mount that disk; if the files are lost, copy "
                              "them from a backup, or delete ",
                              options_.index_path, " to start without artifacts"));
  }
  for (const std::string& sha256 : missing) {
    AMPD_ASSIGN_OR_RETURN(const std::vector<std::string> keys, index_.KeysOf(sha256));
    AMPD_RETURN_IF_ERROR(index_.RemoveContent(sha256));
    contents->erase(sha256);
    for (const std::string& key : keys) {
      LogRepair("removed the name of an artifact, because its file is gone", key);
    }
  }
  return absl::OkStatus();
}

void ArtifactStore::LogRepair(const std::string& what, const std::string& artifact) const {
  if (options_.on_repair) {
    options_.on_repair(what, artifact);
  }
}

}  // namespace ampd::server
