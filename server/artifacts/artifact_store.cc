#include "server/artifacts/artifact_store.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/api/page_budget.h"
#include "base/api/page_size.h"
#include "base/error.h"
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
                 absl::StrCat("the content needs ", wanted_bytes, " bytes more, and the server's quota for artifacts, ",
                              options_.quota_bytes, " bytes, has less left: delete some"));
  }
  if (wanted_bytes > free_bytes - options_.min_free_bytes) {
    return WithRetryDelay(Error(StatusCode::kResourceExhausted, "DISK_FULL", "the server's disk is nearly full"),
                          absl::Seconds(30));
  }
  return absl::OkStatus();
}

absl::Status ArtifactStore::CheckTenantRoom(const std::string& tenant, const std::string& key, int64_t size_bytes) {
  const std::optional<int64_t> quota = options_.tenant_quota ? options_.tenant_quota(tenant) : std::nullopt;
  if (!quota.has_value()) {
    return absl::OkStatus();
  }
  AMPD_ASSIGN_OR_RETURN(int64_t used, index_.TenantBytes(tenant));
  {
    absl::MutexLock lock(&mutex_);
    used += PartialsOf(tenant, key).num_bytes;
  }
  return used + size_bytes <= *quota
             ? absl::OkStatus()
             : WithRetryDelay(Error(StatusCode::kResourceExhausted, "TENANT_LIMIT",
                                    absl::StrCat("the artifacts of the tenant ", tenant, " have ", used,
                                                 " bytes, and this one ", size_bytes, "; together at most ", *quota)),
                              absl::Seconds(30));
}

absl::StatusOr<ArtifactRow> ArtifactStore::FindRow(const Tenants& tenants, const std::string& name) {
  std::vector<ArtifactRow> rows;
  if (CheckDigest("", name).ok()) {
    AMPD_ASSIGN_OR_RETURN(rows, index_.UploadsOf(name));
  } else {
    AMPD_ASSIGN_OR_RETURN(std::optional<ArtifactRow> sample, index_.Find(name));
    if (sample.has_value() && !sample->artifact.job_id().empty()) {
      rows.push_back(*std::move(sample));
    }
  }
  const ArtifactRow* best = nullptr;
  for (const ArtifactRow& row : rows) {
    if (tenants.Has(row.artifact.tenant()) && (best == nullptr || row.artifact.tenant() == kDefaultTenant)) {
      best = &row;
    }
  }
  return best != nullptr ? absl::StatusOr<ArtifactRow>(*best) : NotFound(name);
}

absl::StatusOr<v1::Artifact> ArtifactStore::Find(const Tenants& tenants, const std::string& name) {
  absl::MutexLock index_lock(&index_mutex_);
  AMPD_ASSIGN_OR_RETURN(ArtifactRow row, FindRow(tenants, name));
  return std::move(row.artifact);
}

absl::StatusOr<ArtifactStore::Content> ArtifactStore::OpenContent(const Tenants& tenants, const std::string& name) {
  absl::MutexLock index_lock(&index_mutex_);
  AMPD_ASSIGN_OR_RETURN(const ArtifactRow row, FindRow(tenants, name));
  UniqueFd file(open(PathOf(row.artifact.sha256()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) {
    return ErrnoError(errno, "open an artifact's file");
  }
  return Content{std::move(file), row.artifact.size_bytes()};
}

absl::StatusOr<v1::ListArtifactsResponse> ArtifactStore::List(const Tenants& tenants,
                                                              const v1::ListArtifactsRequest& request, int page_size) {
  int64_t before = std::numeric_limits<int64_t>::max();
  if (!request.page_token().empty() && (!absl::SimpleAtoi(request.page_token(), &before) || before < 1)) {
    return UnknownPageToken(request.page_token());
  }
  absl::MutexLock index_lock(&index_mutex_);
  AMPD_ASSIGN_OR_RETURN(auto rows, index_.List(request.job_id(), tenants, before, page_size + 1));
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
    AMPD_ASSIGN_OR_RETURN(const int64_t total, index_.Count(request.job_id(), tenants));
    response.set_total_size(total);
  }
  return response;
}

absl::StatusOr<ArtifactHold> ArtifactStore::Hold(const std::string& tenant, const std::string& sha256) {
  if (!CheckDigest("", sha256).ok()) {
    return NotFound(sha256);  // The text might be the key of another tenant's upload.
  }
  const std::string key = UploadKey(tenant, sha256);
  absl::MutexLock lock(&mutex_);
  const auto found = uploads_.find(key);
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
  // The upload is still in `uploads_` when the hold is released, because the store deletes no upload that has a hold.
  return ArtifactHold(nullptr, [this, key](void*) {
    absl::MutexLock release(&mutex_);
    --uploads_.at(key).num_holds;
  });
}

// Marks the artifact as being deleted, unless a hold protects it, it was used recently, or a live job names it. Checks
// the holds before the live jobs. A new job has a hold until it is live, so one of the two checks sees the job. While
// `deleting` is set, Hold refuses all callers.
absl::Status ArtifactStore::MarkDeleting(const v1::Artifact& artifact, absl::Time used_before) {
  const std::string key = KeyOf(artifact);
  {
    absl::MutexLock lock(&mutex_);
    Upload& upload = uploads_.at(key);
    if (upload.num_holds > 0 || upload.use_time >= used_before) {
      return InUse(artifact.name(), "");
    }
    upload.deleting = true;
  }
  const std::map<std::string, std::string> live = options_.live_uploads();
  const auto found = live.find(key);
  if (found == live.end()) {
    return absl::OkStatus();
  }
  FinishDeleting(key, /*deleted=*/false);
  return InUse(artifact.name(), found->second);
}

void ArtifactStore::FinishDeleting(const std::string& key, bool deleted) {
  absl::MutexLock lock(&mutex_);
  if (deleted) {
    uploads_.erase(key);
  } else {
    uploads_.at(key).deleting = false;
  }
}

absl::Status ArtifactStore::Delete(const Tenants& tenants, const std::string& name) {
  absl::MutexLock index_lock(&index_mutex_);
  AMPD_ASSIGN_OR_RETURN(const ArtifactRow row, FindRow(tenants, name));
  return DeleteUnlessUsed(row, absl::InfiniteFuture());
}

absl::Status ArtifactStore::DeleteUnlessUsed(const ArtifactRow& row, absl::Time used_before) {
  if (!row.artifact.job_id().empty()) {
    return RemoveName(row.artifact);
  }
  AMPD_RETURN_IF_ERROR(MarkDeleting(row.artifact, used_before));
  absl::Status removed = RemoveName(row.artifact);
  FinishDeleting(KeyOf(row.artifact), removed.ok());
  return removed;
}

absl::Status ArtifactStore::RemoveName(const v1::Artifact& artifact) {
  AMPD_RETURN_IF_ERROR(index_.Remove(KeyOf(artifact)));
  // The deletion has succeeded, because the name is removed. If this call fails to remove the content, the next start
  // of the server removes it.
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
