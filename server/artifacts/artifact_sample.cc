// The functions of ArtifactStore for samples that jobs generate.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/io/pending_file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "google/protobuf/util/time_util.h"
#include "server/artifacts/artifact_store.h"

namespace ampd::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr size_t kMaxSampleNameBytes = 64;
constexpr size_t kMaxMediaTypeBytes = 64;
constexpr size_t kMaxSampleBytes = size_t{1} << 20;

bool IsFileName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxSampleNameBytes && name.front() != '.' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; });
}

absl::Status CheckSample(const v1::Sample& sample) {
  std::vector<FieldViolation> violations;
  if (!IsFileName(sample.file_name())) {
    violations.push_back({"sample.file_name", absl::StrCat("is \"", Shortened(sample.file_name(), kMaxSampleNameBytes),
                                                           "\"; must have 1 to ", kMaxSampleNameBytes,
                                                           " of a-z, 0-9, '-' and '.', and not begin with '.'")});
  }
  if (sample.step() < 0) {
    violations.push_back({"sample.step", absl::StrCat("is ", sample.step(), "; must be 0 or more")});
  }
  if (sample.media_type().size() > kMaxMediaTypeBytes) {
    violations.push_back({"sample.media_type",
                          absl::StrCat("has ", sample.media_type().size(), " bytes; at most ", kMaxMediaTypeBytes)});
  }
  if (sample.content().size() > kMaxSampleBytes) {
    violations.push_back(
        {"sample.content", absl::StrCat("has ", sample.content().size(), " bytes; at most ", kMaxSampleBytes)});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

ArtifactRow RowOf(const std::string& tenant, const std::string& job, int32_t attempt, const v1::Sample& sample,
                  absl::Time now) {
  ArtifactRow row;
  row.attempt = attempt;
  row.use_time = now;
  row.artifact.set_name(absl::StrCat(job, "/step-", sample.step(), "/", sample.file_name()));
  row.artifact.set_sha256(Sha256Hex(sample.content()));
  row.artifact.set_size_bytes(static_cast<int64_t>(sample.content().size()));
  *row.artifact.mutable_create_time() = TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(now));
  row.artifact.set_file_name(sample.file_name());
  row.artifact.set_media_type(sample.media_type());
  row.artifact.set_job_id(job);
  row.artifact.set_tenant(tenant);
  row.artifact.set_step(sample.step());
  return row;
}

// Whether the stored sample `before` stays although the sample `row` has the same name. It stays if it is from a later
// attempt than `row`, or if both have the same attempt and content.
bool Stays(const ArtifactRow& before, const ArtifactRow& row) {
  return before.attempt > row.attempt ||
         (before.attempt == row.attempt && before.artifact.sha256() == row.artifact.sha256());
}

}  // namespace

absl::Status ArtifactStore::AddContent(const std::string& sha256, std::string_view content) {
  const auto size = static_cast<int64_t>(content.size());
  const int64_t free_bytes = FreeBytes();
  {
    absl::MutexLock lock(&mutex_);
    AMPD_RETURN_IF_ERROR(CheckRoom(size, free_bytes));
    num_bytes_ += size;
  }
  const auto write = [&]() -> absl::Status {
    AMPD_ASSIGN_OR_RETURN(PendingFile file, PendingFile::Create(PathOf(sha256), /*replace=*/true, kPrivateFile));
    AMPD_RETURN_IF_ERROR(file.Append(content));
    return file.Commit();
  };
  absl::Status written = write();
  if (!written.ok()) {
    absl::MutexLock lock(&mutex_);
    num_bytes_ -= size;
  }
  return written;
}

absl::Status ArtifactStore::PutSample(const std::string& tenant, const std::string& job, int32_t attempt,
                                      const v1::Sample& sample) {
  AMPD_RETURN_IF_ERROR(CheckSample(sample));
  const ArtifactRow row = RowOf(tenant, job, attempt, sample, options_.clock->Now());
  absl::MutexLock index_lock(&index_mutex_);
  AMPD_ASSIGN_OR_RETURN(const std::optional<ArtifactRow> before, index_.Find(row.artifact.name()));
  if (before.has_value() && Stays(*before, row)) {
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(CheckTenantRoom(tenant, row.artifact.name(), row.artifact.size_bytes()));
  AMPD_ASSIGN_OR_RETURN(const bool has_content, index_.HasContent(row.artifact.sha256()));
  if (!has_content) {
    AMPD_RETURN_IF_ERROR(AddContent(row.artifact.sha256(), sample.content()));
  }
  if (absl::Status put = index_.Put(row); !put.ok()) {
    (void)RemoveContentWithoutName(row.artifact);
    return put;
  }
  return before.has_value() ? RemoveContentWithoutName(before->artifact) : absl::OkStatus();
}

void ArtifactStore::DeleteJob(std::string job) {
  absl::MutexLock lock(&mutex_);
  deleted_jobs_.push_back(std::move(job));
}

}  // namespace ampd::server
