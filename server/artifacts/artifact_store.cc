#include "server/artifacts/artifact_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/page_budget.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace ampd::server {
namespace {

using absl::StatusCode;

absl::Status NotFound(const std::string& name) {
  return Error(StatusCode::kNotFound, "ARTIFACT_NOT_FOUND", absl::StrCat("there is no artifact \"", name, "\""));
}

absl::Status InUse(const std::string& name, const std::string& job) {
  return ErrorWithMetadata(StatusCode::kFailedPrecondition, "ARTIFACT_IN_USE",
                           absl::StrCat("artifact ", name, " is named by ",
                                        job.empty() ? "a job that is being created" : absl::StrCat("job ", job),
                                        "; it can be deleted when that has ended"),
                           {{"artifact", name}, {"job", job}});
}

}  // namespace

absl::Status CheckDigest(std::string_view field, std::string_view sha256) {
  const bool good = sha256.size() == 64 && std::all_of(sha256.begin(), sha256.end(), [](char c) {
                      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                    });
  return good ? absl::OkStatus()
              : InvalidFields({{std::string(field), absl::StrCat("is \"", Shortened(sha256, 80),
                                                                 "\"; must be the SHA-256 of the content in 64 "
                                                                 "hexadecimal digits, 0-9 and a-f")}});
}

absl::StatusOr<std::unique_ptr<ArtifactStore>> ArtifactStore::Open(Options options) {
  if (mkdir(options.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "make the folder of artifacts");
  }
  AMPD_ASSIGN_OR_RETURN(ArtifactIndex index, ArtifactIndex::Open(options.index_path));
  std::unique_ptr<ArtifactStore> store(new ArtifactStore(std::move(options), std::move(index)));
  AMPD_RETURN_IF_ERROR(store->Recover());
  return store;
}

// Makes the folder and the index consistent. After a crash a content may lack its name, because its name is recorded
// last. A name lacks its content only if somebody removed the file.
absl::Status ArtifactStore::Recover() {
  absl::MutexLock index_lock(&index_mutex_);
  AMPD_ASSIGN_OR_RETURN(auto contents, index_.Contents());
  AMPD_RETURN_IF_ERROR(DropNamesWithoutContent(&contents));
  std::error_code error;
  std::vector<std::string> file_names;
  std::filesystem::directory_iterator entry(options_.folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    // Skips entries that are not regular files, such as "lost+found": they do not belong to the store. `gone` is
    // ignored, because it only means that an entry was deleted since it was listed.
    std::error_code gone;
    if (entry->is_regular_file(gone)) {
      file_names.push_back(entry->path().filename().string());
    }
  }
  if (error) {
    return ErrnoError(error.value(), "read the folder of artifacts");
  }
  for (const std::string& file_name : file_names) {
    AMPD_RETURN_IF_ERROR(RecoverFile(file_name, contents));
  }
  AMPD_ASSIGN_OR_RETURN(const std::vector<ArtifactRow> rows, index_.Uploads());
  absl::MutexLock lock(&mutex_);
  for (const ArtifactRow& row : rows) {
    uploads_[row.artifact.name()] = {0, false, row.use_time, row.use_time};
  }
  return absl::OkStatus();
}

absl::Status ArtifactStore::RecoverFile(const std::string& file_name, const std::map<std::string, int64_t>& contents) {
  const std::string sha256(absl::StripSuffix(file_name, ".partial"));
  if (contents.contains(file_name)) {
    absl::MutexLock lock(&mutex_);
    num_bytes_ += contents.at(file_name);
    return absl::OkStatus();
  }
  if (!CheckDigest("", sha256).ok() || contents.contains(sha256)) {
    // The file is a temporary one, or the partial file of a content that is already complete. Both kinds are removed.
    return unlink(PathOf(file_name).c_str()) == 0 ? absl::OkStatus() : ErrnoError(errno, "remove a file");
  }
  if (file_name == sha256 && rename(PathOf(sha256).c_str(), PartialPathOf(sha256).c_str()) != 0) {
    return ErrnoError(errno, "rename a file");
  }
  struct stat status = {};
  if (stat(PartialPathOf(sha256).c_str(), &status) != 0) {
    return ErrnoError(errno, "stat");
  }
  absl::MutexLock lock(&mutex_);
  Partial& partial = partials_[sha256];
  num_bytes_ += status.st_size - partial.received_bytes;  // If both files existed, the rename merged them.
  partial = {status.st_size, 0, false, absl::FromTimeT(status.st_mtime)};
  return absl::OkStatus();
}

absl::Status ArtifactStore::DropNamesWithoutContent(std::map<std::string, int64_t>* contents) {
  for (auto content = contents->begin(); content != contents->end();) {
    if (access(PathOf(content->first).c_str(), F_OK) == 0) {
      ++content;
      continue;
    }
    // Only ENOENT shows that the file is gone. After any other error the file may still exist, so its name must stay: a
    // dropped name cannot be restored.
    if (errno != ENOENT) {
      return ErrnoError(errno, absl::StrCat("look for the file of artifact ", content->first));
    }
    AMPD_RETURN_IF_ERROR(index_.RemoveContent(content->first));
    content = contents->erase(content);
  }
  return absl::OkStatus();
}

int64_t ArtifactStore::num_bytes() const {
  absl::MutexLock lock(&mutex_);
  return num_bytes_;
}

// Returns the free space on the disk, or the largest int64 if it is unknown.
int64_t ArtifactStore::FreeBytes() const {
  struct statvfs disk = {};
  if (statvfs(options_.folder.c_str(), &disk) != 0) {
    return std::numeric_limits<int64_t>::max();
  }
  return static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
}

absl::Status ArtifactStore::CheckRoom(int64_t wanted_bytes, int64_t free_bytes) const {
  const int64_t left = std::max<int64_t>(options_.quota_bytes - num_bytes_, 0);
  if (wanted_bytes > left) {
    return Error(StatusCode::kResourceExhausted, "ARTIFACT_QUOTA",
                 absl::StrCat("the content needs ", wanted_bytes, " bytes more; of the server's quota for artifacts, ",
                              options_.quota_bytes, " bytes, ", left, " are left: delete some"));
  }
  if (wanted_bytes > free_bytes - options_.min_free_bytes) {
    return WithRetryDelay(Error(StatusCode::kResourceExhausted, "DISK_FULL", "the server's disk is nearly full"),
                          absl::Seconds(30));
  }
  return absl::OkStatus();
}

absl::StatusOr<ArtifactRow> ArtifactStore::FindRow(const std::string& name) {
  AMPD_ASSIGN_OR_RETURN(std::optional<ArtifactRow> row, index_.Find(name));
  return row.has_value() ? absl::StatusOr<ArtifactRow>(*std::move(row)) : NotFound(name);
}

absl::StatusOr<v1::Artifact> ArtifactStore::Find(const std::string& name) {
  absl::MutexLock index_lock(&index_mutex_);
  AMPD_ASSIGN_OR_RETURN(ArtifactRow row, FindRow(name));
  return std::move(row.artifact);
}

absl::StatusOr<ArtifactStore::Content> ArtifactStore::OpenContent(const std::string& name) {
  absl::MutexLock index_lock(&index_mutex_);
  AMPD_ASSIGN_OR_RETURN(const ArtifactRow row, FindRow(name));
  UniqueFd file(open(PathOf(row.artifact.sha256()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) {
    return ErrnoError(errno, "open an artifact's file");
  }
  return Content{std::move(file), row.artifact.size_bytes()};
}

absl::StatusOr<v1::ListArtifactsResponse> ArtifactStore::List(const v1::ListArtifactsRequest& request, int page_size) {
  int64_t before = std::numeric_limits<int64_t>::max();
  if (!request.page_token().empty() && (!absl::SimpleAtoi(request.page_token(), &before) || before < 1)) {
    return InvalidFields({{"page_token", "is not one that this listing gave out"}});
  }
  absl::MutexLock index_lock(&index_mutex_);
  AMPD_ASSIGN_OR_RETURN(auto rows, index_.List(request.job_id(), before, page_size + 1));
  v1::ListArtifactsResponse response;
  PageBudget budget;
  int64_t last_number = 0;
  for (auto& [number, row] : rows) {
    if (response.artifacts_size() == page_size || !budget.Take(row.artifact.ByteSizeLong())) {
      response.set_next_page_token(absl::StrCat(last_number));
      break;
    }
    last_number = number;
    *response.add_artifacts() = std::move(row.artifact);
  }
  if (request.page_token().empty()) {
    AMPD_ASSIGN_OR_RETURN(const int64_t total, index_.Count(request.job_id()));
    response.set_total_size(total);
  }
  return response;
}

absl::StatusOr<ArtifactHold> ArtifactStore::Hold(const std::string& sha256) {
  absl::MutexLock lock(&mutex_);
  const auto found = uploads_.find(sha256);
  if (found == uploads_.end()) {
    return NotFound(sha256);
  }
  if (found->second.deleting) {
    return WithRetryDelay(Error(StatusCode::kUnavailable, "ARTIFACT_IS_BEING_DELETED",
                                absl::StrCat("artifact ", sha256, " is just being deleted")),
                          absl::Seconds(1));
  }
  ++found->second.num_holds;
  found->second.use_time = options_.clock->Now();
  // `at` finds the upload when the hold is released, because an upload with a hold is never removed from the map.
  return ArtifactHold(nullptr, [this, sha256](void*) {
    absl::MutexLock release(&mutex_);
    --uploads_.at(sha256).num_holds;
  });
}

// Marks the artifact as being deleted, unless a hold protects it or a live job names it. The holds are checked before
// the live jobs: a new job's hold is released only when the job is live, so one of the two checks sees the job. While
// `deleting` is set, Hold grants no hold.
absl::Status ArtifactStore::MarkDeleting(const std::string& name, absl::Time used_before) {
  {
    absl::MutexLock lock(&mutex_);
    Upload& upload = uploads_.at(name);
    if (upload.num_holds > 0 || upload.use_time >= used_before) {
      return InUse(name, "");
    }
    upload.deleting = true;
  }
  const std::map<std::string, std::string> live = options_.live_uploads();
  const auto found = live.find(name);
  if (found == live.end()) {
    return absl::OkStatus();
  }
  FinishDeleting(name, /*deleted=*/false);
  return InUse(name, found->second);
}

void ArtifactStore::FinishDeleting(const std::string& name, bool deleted) {
  absl::MutexLock lock(&mutex_);
  if (deleted) {
    uploads_.erase(name);
  } else {
    uploads_.at(name).deleting = false;
  }
}

absl::Status ArtifactStore::Delete(const std::string& name) { return DeleteUnlessUsed(name, absl::InfiniteFuture()); }

absl::Status ArtifactStore::DeleteUnlessUsed(const std::string& name, absl::Time used_before) {
  absl::MutexLock index_lock(&index_mutex_);
  AMPD_ASSIGN_OR_RETURN(const ArtifactRow row, FindRow(name));
  if (!row.artifact.job_id().empty()) {
    return RemoveName(row.artifact);
  }
  AMPD_RETURN_IF_ERROR(MarkDeleting(name, used_before));
  absl::Status removed = RemoveName(row.artifact);
  FinishDeleting(name, removed.ok());
  return removed;
}

absl::Status ArtifactStore::RemoveName(const v1::Artifact& artifact) {
  AMPD_RETURN_IF_ERROR(index_.Remove(artifact.name()));
  // The name is removed, so the deletion has succeeded. If removing the content fails, the next start of the server
  // removes it.
  (void)RemoveContentWithoutName(artifact);
  return absl::OkStatus();
}

absl::Status ArtifactStore::RemoveContentWithoutName(const v1::Artifact& artifact) {
  AMPD_ASSIGN_OR_RETURN(const bool has_name, index_.HasContent(artifact.sha256()));
  if (has_name) {
    return absl::OkStatus();
  }
  if (unlink(PathOf(artifact.sha256()).c_str()) != 0 && errno != ENOENT) {
    return ErrnoError(errno, "remove an artifact's file");
  }
  absl::MutexLock lock(&mutex_);
  num_bytes_ -= artifact.size_bytes();
  return absl::OkStatus();
}

}  // namespace ampd::server
