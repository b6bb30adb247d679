// The functions of ArtifactStore and ArtifactUpload that receive uploads.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/artifacts/artifact_store.h"

namespace ampd::server {
namespace {

using absl::StatusCode;
using google::protobuf::util::TimeUtil;

constexpr size_t kMaxFileNameBytes = 255;

absl::Status CheckRequest(const v1::UploadArtifactRequest& request) {
  std::vector<FieldViolation> violations = ViolationsOf(CheckDigest("sha256", request.sha256()));
  if (request.size_bytes() < 1) {
    violations.push_back({"size_bytes", absl::StrCat("is ", request.size_bytes(), "; must be 1 or more")});
  }
  if (request.offset_bytes() < 0) {
    violations.push_back({"offset_bytes", absl::StrCat("is ", request.offset_bytes(), "; must be 0 or more")});
  }
  const bool is_odd = std::any_of(request.file_name().begin(), request.file_name().end(),
                                  [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '/'; });
  if (is_odd || request.file_name().size() > kMaxFileNameBytes) {
    violations.push_back({"file_name", absl::StrCat("must have at most ", kMaxFileNameBytes,
                                                    " bytes, and neither '/' nor control characters")});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

// Returns the error for an upload if another upload of the same content is writing it, or is reading it again to check
// it. The client must wait and retry. The server does not wait instead, because reading back a large file takes minutes
// and would block a thread that long.
absl::Status Busy() {
  return WithRetryDelay(Error(StatusCode::kUnavailable, "UPLOAD_BUSY",
                              "another upload of this content is written or read back; call again"),
                        absl::Seconds(1));
}

absl::Status TooManyUploads(const std::string& whose, size_t limit) {
  return WithRetryDelay(
      Error(
          StatusCode::kResourceExhausted, "TOO_MANY_UPLOADS",
          absl::StrCat(whose, " already has ", limit,
                       " uploads that are open or broke off; complete some of them, or wait: an upload that broke off "
                       "is deleted after a day")),
      absl::Seconds(30));
}

absl::Status TakenOver() {
  return Error(StatusCode::kAborted, "UPLOAD_TAKEN_OVER", "another upload of this content has taken over");
}

}  // namespace

absl::StatusOr<std::optional<v1::Artifact>> ArtifactStore::FindUpload(const std::string& key) {
  absl::MutexLock index_lock(&index_mutex_);
  AMPD_ASSIGN_OR_RETURN(std::optional<ArtifactRow> row, index_.Find(key));
  if (!row.has_value()) {
    return std::nullopt;
  }
  absl::MutexLock lock(&mutex_);
  uploads_.at(key).use_time = options_.clock->Now();
  return std::move(row->artifact);
}

absl::StatusOr<v1::Upload> ArtifactStore::GetUpload(const std::string& tenant, const std::string& sha256) {
  AMPD_RETURN_IF_ERROR(CheckDigest("sha256", sha256));
  const std::string key = UploadKey(tenant, sha256);
  v1::Upload upload;
  {
    // The partial upload is looked up before the artifact. If the upload completes between the two lookups, the second
    // one finds the artifact.
    absl::MutexLock lock(&mutex_);
    const auto found = partials_.find(key);
    upload.set_received_bytes(found == partials_.end() ? 0 : found->second.received_bytes);
  }
  AMPD_ASSIGN_OR_RETURN(std::optional<v1::Artifact> artifact, FindUpload(key));
  if (artifact.has_value()) {
    upload.set_received_bytes(artifact->size_bytes());
    *upload.mutable_artifact() = *std::move(artifact);
  }
  return upload;
}

// Makes a new upload the owner of the partial content, so that only this upload may write the content. Returns the
// number of the upload, or 0 if the content is already complete.
absl::StatusOr<uint64_t> ArtifactStore::ClaimPartial(const std::string& tenant,
                                                     const v1::UploadArtifactRequest& request) {
  const std::string key = UploadKey(tenant, request.sha256());
  const int64_t free_bytes = FreeBytes();
  absl::MutexLock lock(&mutex_);
  const auto found = partials_.find(key);
  if (found != partials_.end() && found->second.is_busy) {
    return Busy();
  }
  if (uploads_.contains(key)) {
    return 0;
  }
  const int64_t received = found == partials_.end() ? 0 : found->second.received_bytes;
  if (request.size_bytes() < received) {
    return InvalidFields(
        {{"size_bytes", absl::StrCat("is ", request.size_bytes(), ", but ", received, " bytes of this content came")}});
  }
  if (request.offset_bytes() != received) {
    return Error(StatusCode::kAborted, "OFFSET_MISMATCH",
                 absl::StrCat("offset_bytes is ", request.offset_bytes(), "; ", received,
                              " bytes of this content came: go on from there"));
  }
  if (found == partials_.end()) {
    AMPD_RETURN_IF_ERROR(CheckNumPartials(tenant));
  }
  AMPD_RETURN_IF_ERROR(CheckRoom(request.size_bytes() - received, free_bytes));
  Partial& partial = partials_[key];
  partial.announced_bytes = request.size_bytes();
  partial.owner = ++last_owner_;
  partial.write_time = options_.clock->Now();
  return partial.owner;
}

absl::Status ArtifactStore::CheckNumPartials(const std::string& tenant) const {
  if (PartialsOf(tenant, /*except=*/"").num_partials >= options_.max_tenant_partials) {
    return TooManyUploads(absl::StrCat("the tenant ", tenant), options_.max_tenant_partials);
  }
  return partials_.size() < options_.max_partials ? absl::OkStatus()
                                                  : TooManyUploads("the server", options_.max_partials);
}

ArtifactStore::PartialsUse ArtifactStore::PartialsOf(const std::string& tenant, const std::string& except) const {
  const bool is_default = tenant == kDefaultTenant;
  const std::string prefix = is_default ? "" : absl::StrCat(tenant, "/");
  PartialsUse use;
  for (auto found = partials_.lower_bound(prefix); found != partials_.end(); ++found) {
    const auto& [key, partial] = *found;
    if (!key.starts_with(prefix)) {
      break;
    }
    // The keys of the default tenant's uploads have no tenant, and are scattered among the others.
    if (key != except && !(is_default && absl::StrContains(key, '/'))) {
      ++use.num_partials;
      use.num_bytes += std::max(partial.received_bytes, partial.announced_bytes);
    }
  }
  return use;
}

absl::StatusOr<ArtifactStore::Begun> ArtifactStore::BeginUpload(const std::string& tenant,
                                                                const v1::UploadArtifactRequest& request) {
  AMPD_RETURN_IF_ERROR(CheckRequest(request));
  const std::string key = UploadKey(tenant, request.sha256());
  absl::StatusOr<uint64_t> claimed = 0;
  {
    absl::MutexLock index_lock(&index_mutex_);  // Otherwise two uploads could both claim the last free space.
    AMPD_ASSIGN_OR_RETURN(const std::optional<ArtifactRow> row, index_.Find(key));
    if (!row.has_value()) {
      AMPD_RETURN_IF_ERROR(CheckTenantRoom(tenant, key, request.size_bytes()));
    }
    claimed = ClaimPartial(tenant, request);
  }
  AMPD_ASSIGN_OR_RETURN(const uint64_t owner, std::move(claimed));
  if (owner == 0) {
    AMPD_ASSIGN_OR_RETURN(std::optional<v1::Artifact> artifact, FindUpload(key));
    if (!artifact.has_value()) {
      return WithRetryDelay(Error(StatusCode::kUnavailable, "ARTIFACT_IS_BEING_DELETED",
                                  absl::StrCat("artifact ", request.sha256(), " was just deleted")),
                            absl::Seconds(1));
    }
    if (artifact->size_bytes() != request.size_bytes()) {
      return InvalidFields({{"size_bytes", absl::StrCat("is ", request.size_bytes(),
                                                        "; the content of this digest has ", artifact->size_bytes())}});
    }
    return Begun{std::move(artifact), nullptr};
  }
  return Begun{std::nullopt, std::unique_ptr<ArtifactUpload>(new ArtifactUpload(this, tenant, request, owner))};
}

absl::Status ArtifactStore::BeginWrite(const std::string& key, uint64_t owner, int64_t num_bytes) {
  const int64_t free_bytes = FreeBytes();
  absl::MutexLock lock(&mutex_);
  const auto found = partials_.find(key);
  if (found == partials_.end() || found->second.owner != owner) {
    return TakenOver();
  }
  AMPD_RETURN_IF_ERROR(CheckRoom(num_bytes, free_bytes));
  num_bytes_ += num_bytes;
  found->second.is_busy = true;
  return absl::OkStatus();
}

void ArtifactStore::EndWrite(const std::string& key, int64_t num_bytes, bool ok) {
  absl::MutexLock lock(&mutex_);
  Partial& partial = partials_.at(key);
  partial.is_busy = false;
  partial.write_time = options_.clock->Now();
  partial.received_bytes += ok ? num_bytes : 0;
  num_bytes_ -= ok ? 0 : num_bytes;
}

void ArtifactStore::EndFinish(const std::string& key, bool is_over) {
  absl::MutexLock lock(&mutex_);
  const auto found = partials_.find(key);
  found->second.is_busy = false;
  if (is_over) {
    num_bytes_ -= found->second.received_bytes;
    partials_.erase(found);
  }
}

// Turns a complete and synced file into an artifact, by recording its name in the index. After an error the partial
// upload is unchanged. Until the record is on disk, the file also keeps its name as a partial upload. After a crash,
// the upload therefore still exists and still belongs to its tenant.
absl::StatusOr<v1::Artifact> ArtifactStore::Record(const std::string& tenant, const std::string& sha256,
                                                   int64_t size_bytes, const std::string& file_name) {
  const std::string key = UploadKey(tenant, sha256);
  const std::string partial = PartialPathOf(key);
  ArtifactRow row;
  row.use_time = options_.clock->Now();
  row.artifact.set_name(sha256);
  row.artifact.set_sha256(sha256);
  row.artifact.set_size_bytes(size_bytes);
  row.artifact.set_file_name(file_name);
  row.artifact.set_tenant(tenant);
  *row.artifact.mutable_create_time() = TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(row.use_time));

  absl::MutexLock index_lock(&index_mutex_);
  AMPD_ASSIGN_OR_RETURN(const bool has_content, index_.HasContent(sha256));
  if (!has_content && link(partial.c_str(), PathOf(sha256).c_str()) != 0) {
    return ErrnoError(errno, "give an upload's file its name");
  }
  absl::Status recorded = has_content ? absl::OkStatus() : SyncFolder(options_.folder);
  if (recorded.ok()) {
    recorded = index_.Put(row);
  }
  if (!recorded.ok()) {
    if (!has_content) {
      (void)unlink(PathOf(sha256).c_str());
    }
    return recorded;
  }
  (void)unlink(partial.c_str());  // If unlink fails, the next start of the server removes the file.
  absl::MutexLock lock(&mutex_);
  uploads_[key] = {0, false, row.use_time, row.use_time};
  num_bytes_ += has_content ? 0 : size_bytes;  // EndFinish will subtract the bytes of the partial upload.
  return std::move(row.artifact);
}

ArtifactUpload::ArtifactUpload(ArtifactStore* store, std::string tenant, const v1::UploadArtifactRequest& request,
                               uint64_t owner)
    : store_(store),
      tenant_(std::move(tenant)),
      key_(UploadKey(tenant_, request.sha256())),
      sha256_(request.sha256()),
      file_name_(request.file_name()),
      size_bytes_(request.size_bytes()),
      owner_(owner),
      received_bytes_(request.offset_bytes()) {}

absl::Status ArtifactUpload::OpenFile() {
  if (file_.ok()) {
    return absl::OkStatus();
  }
  UniqueFd file(open(store_->PartialPathOf(key_).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.ok() || lseek(file.get(), received_bytes_, SEEK_SET) < 0) {
    return ErrnoError(errno, "open an upload's file");
  }
  file_ = std::move(file);
  return absl::OkStatus();
}

absl::Status ArtifactUpload::Write(std::string_view piece) {
  if (piece.empty()) {
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(OpenFile());
  return WriteAll(file_.get(), piece);
}

absl::Status ArtifactUpload::Append(std::string_view piece) {
  const auto num_bytes = static_cast<int64_t>(piece.size());
  if (piece.size() > kMaxPieceBytes) {
    return InvalidFields(
        {{"content", absl::StrCat("has ", num_bytes, " bytes; a message may have at most ", kMaxPieceBytes)}});
  }
  if (num_bytes > size_bytes_ - received_bytes_) {
    return InvalidFields({{"content", absl::StrCat("goes beyond size_bytes, ", size_bytes_, ", by ",
                                                   num_bytes - (size_bytes_ - received_bytes_), " bytes")}});
  }
  AMPD_RETURN_IF_ERROR(store_->BeginWrite(key_, owner_, num_bytes));
  const absl::Status written = Write(piece);
  store_->EndWrite(key_, num_bytes, written.ok());
  received_bytes_ += written.ok() ? num_bytes : 0;
  return written;
}

// Completes the upload. Computes the digest from the file on disk. The received pieces would not suffice, because they
// may have come in several uploads, some of them before a crash.
absl::StatusOr<v1::Artifact> ArtifactUpload::Finish() {
  if (received_bytes_ != size_bytes_) {
    return Error(StatusCode::kInvalidArgument, "INCOMPLETE_UPLOAD",
                 absl::StrCat("size_bytes is ", size_bytes_, ", but ", received_bytes_, " bytes came"));
  }
  AMPD_RETURN_IF_ERROR(store_->BeginWrite(key_, owner_, 0));
  const std::string path = store_->PartialPathOf(key_);
  const auto finish = [&]() -> absl::StatusOr<v1::Artifact> {
    AMPD_RETURN_IF_ERROR(OpenFile());
    if (fsync(file_.get()) != 0) {
      return ErrnoError(errno, "sync an upload's file");
    }
    AMPD_ASSIGN_OR_RETURN(const std::string found, Sha256OfFile(path));
    if (found != sha256_) {
      (void)unlink(path.c_str());
      return Error(StatusCode::kInvalidArgument, "DIGEST_MISMATCH",
                   absl::StrCat("sha256 is ", sha256_, ", but the content that came has ", found,
                                ": nothing of it is kept, send it from the start"));
    }
    return store_->Record(tenant_, sha256_, size_bytes_, file_name_);
  };
  absl::StatusOr<v1::Artifact> artifact = finish();
  store_->EndFinish(key_, artifact.ok() || ReasonOf(artifact.status()) == "DIGEST_MISMATCH");
  return artifact;
}

}  // namespace ampd::server
