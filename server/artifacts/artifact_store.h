#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/v1/artifact_service.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/api/tenants.h"
#include "base/clock.h"
#include "base/io/file.h"
#include "server/artifacts/artifact_index.h"
#include "server/artifacts/artifact_upload.h"

namespace ampd::server {

// Protects an upload from deletion as long as the object lives.
using ArtifactHold = std::shared_ptr<void>;

// Stores the files of the cluster: uploads of clients, named by the SHA-256 of their content, and samples that jobs
// generate. Artifacts with the same content share one file, which is named by the content's digest. ArtifactIndex holds
// the names of the artifacts.
//
//   1. The store writes the bytes to "<sha256>.partial". If the upload breaks off, that file is kept for a day.
//   2. When all bytes have arrived, the store syncs the file, reads it back and compares it with the digest.
//   3. The file gets the second name "<sha256>", and the folder is synced.
//   4. The artifact's name is recorded in the index; from now on the artifact exists. The first name of the file is
//      removed. After a crash between steps 3 and 4, Open undoes step 3.
//
// A tenant must upload a file itself even if another tenant has already uploaded the same content. So no tenant can
// find out what other tenants have. For tenants other than the default one, the partial file is
// "<tenant>.<sha256>.partial".
//
// The store deletes an upload if no live job names it and no request has named it for the time `retention`. It deletes
// samples together with their job. All methods except Hold, DeleteJob and num_bytes block on the disk. Thread-safe.
class ArtifactStore {
 public:
  struct Options {
    std::string folder;
    std::string index_path;
    const Clock* clock = nullptr;
    int64_t quota_bytes = int64_t{50} << 30;  // Limit for all stored files, including partial uploads.
    // Limits for the number of uploads that are open or broke off, of one tenant and of all tenants. Each has an entry
    // in memory, and most have a file.
    size_t max_tenant_partials = 1'000;
    size_t max_partials = 10'000;
    int64_t min_free_bytes = 0;                       // Free disk space that every write must leave.
    absl::Duration retention = absl::Hours(24 * 30);  // Zero: uploads are kept forever.
    absl::Duration partial_retention = absl::Hours(24);
    // Returns the limit for a tenant's uploads and samples, in bytes, or nullopt if only quota_bytes limits them. Must
    // be quick. If this function is null, no tenant has a limit of its own.
    std::function<std::optional<int64_t>(const std::string& tenant)> tenant_quota;
    // Returns false while the wall clock may be wrong. Meanwhile, the store deletes no upload and no partial upload for
    // being too old. Must be quick. If this function is null, the clock counts as always right.
    std::function<bool()> clock_is_steady;
    // Returns the uploads that live jobs use. The key is the result of UploadKey, and the value is the id of one such
    // job. Must be quick.
    std::function<std::map<std::string, std::string>()> live_uploads;
    std::function<bool(const std::string& job)> job_exists;
    // Called by Open when it removes a name whose file is gone, or keeps a file without a name as a partial upload.
    // `what` says which. `artifact`: the key of the artifact (KeyOf). May be null.
    std::function<void(const std::string& what, const std::string& artifact)> on_repair;
    std::function<void(const absl::Status&)> on_sweep_failed;  // Called when a sweep failed; the next one retries.
  };
  static constexpr absl::Duration kSweepInterval = absl::Hours(1);

  // Opens the store. Creates the folder and the index if they do not exist, and makes them consistent after a crash.
  // Returns FAILED_PRECONDITION (DATA_DIRECTORY_UNUSABLE) if the index names files and the folder has none of them, and
  // the errors of ArtifactIndex::Open and of the disk.
  static absl::StatusOr<std::unique_ptr<ArtifactStore>> Open(Options options);
  ~ArtifactStore() { Stop(); }

  // Starts the thread that sweeps every hour and deletes the generated samples of deleted jobs.
  void Start();
  // Stops the thread, which first tries all pending deletions. The next server process repeats those that fail.
  // Idempotent.
  void Stop();

  // ---- Uploads; artifact_upload.cc. INVALID_ARGUMENT if a digest is malformed.
  //
  // Returns how many bytes of the content have arrived. Like every request for the upload, it postpones the upload's
  // expiry.
  absl::StatusOr<v1::Upload> GetUpload(const std::string& tenant, const std::string& sha256);
  // The result of BeginUpload: the existing artifact, or the object that receives the content.
  struct Begun {
    std::optional<v1::Artifact> artifact;
    std::unique_ptr<ArtifactUpload> upload;
  };
  // Begins an upload for the tenant. If the tenant already has this artifact, returns the artifact instead. Ignores
  // `content` of the request. If an older upload of the same content is waiting for its client, this upload takes over
  // from it.
  //
  //   INVALID_ARGUMENT    a field is invalid
  //   UNAVAILABLE         another upload of the content is being written or read back right now (UPLOAD_BUSY)
  //   ABORTED             the offset is not where the last upload broke off (OFFSET_MISMATCH)
  //   RESOURCE_EXHAUSTED  the quota (ARTIFACT_QUOTA), the tenant's limit (TENANT_LIMIT) or the disk (DISK_FULL) has too
  //                       little space left, or the tenant or the server has too many uploads that are open or broke
  //                       off (TOO_MANY_UPLOADS)
  absl::StatusOr<Begun> BeginUpload(const std::string& tenant, const v1::UploadArtifactRequest& request);

  // ---- Artifacts by Artifact.name. NOT_FOUND (reason ARTIFACT_NOT_FOUND) if none of these tenants has an artifact
  // with the name. If several tenants have uploaded the same content, the functions use the upload of the default
  // tenant or, if it has none, the oldest upload.
  absl::StatusOr<v1::Artifact> Find(const Tenants& tenants, const std::string& name);
  struct Content {
    UniqueFd file;
    int64_t size_bytes = 0;
  };
  // Opens the artifact's content. The open file stays readable even if the artifact is deleted meanwhile.
  absl::StatusOr<Content> OpenContent(const Tenants& tenants, const std::string& name);
  // Lists one page of the tenants' artifacts. REQUIRES: page_size is at least 1. INVALID_ARGUMENT for a token that no
  // listing returned.
  absl::StatusOr<v1::ListArtifactsResponse> List(const Tenants& tenants, const v1::ListArtifactsRequest& request,
                                                 int page_size);
  // Deletes the artifact. FAILED_PRECONDITION (reason ARTIFACT_IN_USE) while a live job names it.
  absl::Status Delete(const Tenants& tenants, const std::string& name);
  // Protects an upload for a job that is about to name it. Does not wait for the disk. NOT_FOUND if there is no such
  // upload; UNAVAILABLE while the upload is being deleted.
  absl::StatusOr<ArtifactHold> Hold(const std::string& tenant, const std::string& sha256);

  // ---- Samples; artifact_sample.cc.
  // Stores a sample that a job of the tenant has generated. Storing the same sample again changes nothing. A sample of
  // a later attempt replaces an earlier attempt's sample of the same name. INVALID_ARGUMENT for a malformed sample;
  // RESOURCE_EXHAUSTED for the same reasons as BeginUpload.
  absl::Status PutSample(const std::string& tenant, const std::string& job, int32_t attempt, const v1::Sample& sample);
  // Schedules the deletion of the samples that a job has generated. Does not wait for the disk.
  void DeleteJob(std::string job);

  // Runs the hourly sweep once (artifact_sweep.cc): deletes expired artifacts, and the generated samples of jobs that
  // no longer exist.
  absl::Status Sweep();
  // Returns the number of bytes stored on the disk, including partial uploads.
  int64_t num_bytes() const;

 private:
  friend class ArtifactUpload;
  // What the store keeps in memory about one upload, for operations that must not wait for the disk.
  struct Upload {
    int num_holds = 0;
    bool deleting = false;
    absl::Time use_time;
    absl::Time stored_use_time;
  };
  // An upload of which not all bytes have arrived.
  struct Partial {
    int64_t received_bytes = 0;
    int64_t announced_bytes = 0;  // Size of the whole content, as the newest upload announced it; 0 after a restart.
    uint64_t owner = 0;           // Number of the upload that may append to the file.
    bool is_busy = false;         // The file is being written, read back or dropped; no other upload may take over.
    absl::Time write_time;
  };
  ArtifactStore(Options options, ArtifactIndex index) : options_(std::move(options)), index_(std::move(index)) {}
  std::string PathOf(const std::string& sha256) const { return options_.folder + "/" + sha256; }
  // `key`: the result of UploadKey.
  std::string PartialPathOf(const std::string& key) const;
  absl::Status Recover();
  // What the folder and the index contain when the store opens.
  struct Found {
    std::map<std::string, int64_t> contents;  // The size of each file that has a name, by its digest.
    std::set<std::string> uploads;            // Keys of the uploads.
    std::set<std::string> file_names;
    std::set<std::string> partials;  // Digests of the contents that have a partial file of any tenant.
  };
  void LogRepair(const std::string& what, const std::string& artifact) const;
  absl::Status RecoverFile(const std::string& file_name, const Found& found);
  // Returns those entries of `contents` whose files no longer exist.
  absl::StatusOr<std::vector<std::string>> FindMissing(const std::map<std::string, int64_t>& contents) const;
  // Looks for the file of each entry of `contents`. If a file no longer exists, removes its entry from `contents`, and
  // all its names from the index. If no file exists, removes nothing, and returns an error.
  absl::Status DropNamesWithoutContent(std::map<std::string, int64_t>* contents)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(index_mutex_);
  // Returns the free space on the disk.
  int64_t FreeBytes() const;
  // Checks that the quota and the disk have space for `wanted_bytes` more. `free_bytes` is the result of FreeBytes(),
  // which the caller reads before it takes the lock.
  absl::Status CheckRoom(int64_t wanted_bytes, int64_t free_bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::StatusOr<ArtifactRow> FindRow(const Tenants& tenants, const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(index_mutex_);
  // Removes the artifact's name, and also its file if that was the file's last name.
  absl::Status RemoveName(const v1::Artifact& artifact) ABSL_EXCLUSIVE_LOCKS_REQUIRED(index_mutex_);
  absl::Status RemoveContentWithoutName(const v1::Artifact& artifact) ABSL_EXCLUSIVE_LOCKS_REQUIRED(index_mutex_);
  absl::Status AddContent(const std::string& sha256, std::string_view content);
  // Marks the artifact as being deleted, unless it is in use or was used at or after `used_before`.
  absl::Status MarkDeleting(const v1::Artifact& artifact, absl::Time used_before);
  void FinishDeleting(const std::string& key, bool deleted);

  absl::StatusOr<std::optional<v1::Artifact>> FindUpload(const std::string& key);
  // Returns RESOURCE_EXHAUSTED (TENANT_LIMIT) if an artifact with this key and size would exceed the tenant's limit.
  absl::Status CheckTenantRoom(const std::string& tenant, const std::string& key, int64_t size_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(index_mutex_);
  absl::StatusOr<uint64_t> ClaimPartial(const std::string& tenant, const v1::UploadArtifactRequest& request);
  // Returns RESOURCE_EXHAUSTED (TOO_MANY_UPLOADS) if the tenant or the server may have no further partial upload.
  absl::Status CheckNumPartials(const std::string& tenant) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The number of a tenant's partial uploads, and the bytes that they have or have announced.
  struct PartialsUse {
    size_t num_partials = 0;
    int64_t num_bytes = 0;
  };
  // Sums up the partial uploads of a tenant, without the one with the key `except`.
  PartialsUse PartialsOf(const std::string& tenant, const std::string& except) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reserves the partial file for a write of this upload. No other upload touches the file before EndWrite. Returns
  // ABORTED (reason UPLOAD_TAKEN_OVER) if another upload has become the owner.
  absl::Status BeginWrite(const std::string& key, uint64_t owner, int64_t num_bytes);
  void EndWrite(const std::string& key, int64_t num_bytes, bool ok);
  // Called when ArtifactUpload::Finish ends, or when a partial upload has expired: other uploads may use the partial
  // file again. If `is_over`, the partial file no longer exists, and its entry is removed.
  void EndFinish(const std::string& key, bool is_over);
  absl::StatusOr<v1::Artifact> Record(const std::string& tenant, const std::string& sha256, int64_t size_bytes,
                                      const std::string& file_name);

  void Work();
  void LogFailure(const absl::Status& status) const;
  absl::Status DeleteSamples(const std::string& job);
  void DropOldPartials();
  absl::Status DeleteUnusedUploads();
  // Deletes an artifact in the same way as Delete. Also returns FAILED_PRECONDITION if it is an upload that a request
  // has named at or after `used_before`.
  absl::Status DeleteUnlessUsed(const ArtifactRow& row, absl::Time used_before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(index_mutex_);
  absl::Status StoreUseTimes();
  bool HasWorkOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || !deleted_jobs_.empty(); }

  const Options options_;
  std::thread thread_;

  // Guards the index, and the moves of files that must agree with the index. The mutex may be held while waiting for
  // the disk.
  absl::Mutex index_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  ArtifactIndex index_ ABSL_GUARDED_BY(index_mutex_);

  // Guards the state in memory. The mutex is never held while waiting for the disk.
  mutable absl::Mutex mutex_;
  std::map<std::string, Upload> uploads_ ABSL_GUARDED_BY(mutex_);    // Key: the result of UploadKey.
  std::map<std::string, Partial> partials_ ABSL_GUARDED_BY(mutex_);  // Key: the result of UploadKey.
  uint64_t last_owner_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> deleted_jobs_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Returns INVALID_ARGUMENT naming `field` if `sha256` is not 64 lower-case hexadecimal digits.
absl::Status CheckDigest(std::string_view field, std::string_view sha256);

}  // namespace ampd::server
