#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
#include "base/clock.h"
#include "base/io/file.h"
#include "server/artifacts/artifact_index.h"
#include "server/artifacts/artifact_upload.h"

namespace ampd::server {

// While it lives, the upload that it was given for is not deleted.
using ArtifactHold = std::shared_ptr<void>;

// Keeps files that are the cluster's: what clients upload, named by the SHA-256 of its content, and the samples of
// jobs. A content is one file in the folder, named by its digest, however many names it has; the names are in
// ArtifactIndex.
//
//   1. bytes go to "<sha256>.partial", which stays for a day when the upload breaks off
//   2. all have come: the file is synced, read back and compared with the digest
//   3. it is renamed to "<sha256>", the folder is synced
//   4. its name is recorded: from here on it is there. Open undoes a step 3 without a step 4.
//
// An upload that no live job names goes when nobody has asked for it for the time of retention; samples go with their
// job. Everything but Hold, DeleteJob and num_bytes blocks on the disk. Thread-safe.
class ArtifactStore {
 public:
  struct Options {
    std::string folder;
    std::string index_path;
    const Clock* clock = nullptr;
    int64_t quota_bytes = int64_t{50} << 30;          // of all contents and of what came of uploads that are not whole
    int64_t min_free_bytes = 0;                       // of the disk; nothing is taken in that would leave less
    absl::Duration retention = absl::Hours(24 * 30);  // zero: uploads stay
    absl::Duration partial_retention = absl::Hours(24);
    // False while the wall clock may be wrong: nothing is deleted by its age then. Quick. May be null: always steady.
    std::function<bool()> clock_is_steady;
    // Names of the uploads that live jobs have, each with one such job. Quick.
    std::function<std::map<std::string, std::string>()> live_uploads;
    std::function<bool(const std::string& job)> job_exists;
    std::function<void(const absl::Status&)> on_sweep_failed;  // the next sweep tries again
  };
  static constexpr absl::Duration kSweepInterval = absl::Hours(1);

  // Makes the folder and the index where they are not there, and brings them into line after a crash. NEWER_SCHEMA as
  // ArtifactIndex; what the disk says.
  static absl::StatusOr<std::unique_ptr<ArtifactStore>> Open(Options options);
  ~ArtifactStore() { Stop(); }

  // Starts the thread that sweeps every hour and deletes what is left of deleted jobs.
  void Start();
  // Idempotent. Jobs whose deletion still waits are found by the next server's sweep.
  void Stop();

  // ---- Uploads; artifact_upload.cc. A digest that is none is INVALID_ARGUMENT.
  // How much of the content came; counts as asking for it.
  absl::StatusOr<v1::Upload> GetUpload(const std::string& sha256);
  // What an upload begins with: either the artifact that is there already, or what takes the content.
  struct Begun {
    std::optional<v1::Artifact> artifact;
    std::unique_ptr<ArtifactUpload> upload;
  };
  // `content` of the request is not looked at. A newer upload of a content takes over from an older one that waits for
  // its client.
  //   INVALID_ARGUMENT    a field
  //   UNAVAILABLE         an older upload is just written or read back (UPLOAD_BUSY)
  //   ABORTED             the content does not begin where the last upload broke off (OFFSET_MISMATCH)
  //   RESOURCE_EXHAUSTED  it is more than the quota (ARTIFACT_QUOTA) or the disk (DISK_FULL) leaves
  absl::StatusOr<Begun> BeginUpload(const v1::UploadArtifactRequest& request);

  // ---- Names. NOT_FOUND has reason ARTIFACT_NOT_FOUND.
  absl::StatusOr<v1::Artifact> Find(const std::string& name);
  struct Content {
    UniqueFd file;
    int64_t size_bytes = 0;
  };
  // Stays readable when the artifact is deleted meanwhile.
  absl::StatusOr<Content> OpenContent(const std::string& name);
  // REQUIRES: page_size is at least 1. INVALID_ARGUMENT for a token that no listing gave out.
  absl::StatusOr<v1::ListArtifactsResponse> List(const v1::ListArtifactsRequest& request, int page_size);
  // FAILED_PRECONDITION (reason ARTIFACT_IN_USE) while a live job names it.
  absl::Status Delete(const std::string& name);
  // For a job that is to name it. Quick. NOT_FOUND when it is not uploaded; UNAVAILABLE while it is being deleted.
  absl::StatusOr<ArtifactHold> Hold(const std::string& sha256);

  // ---- Samples; artifact_sample.cc.
  // Stored again it changes nothing; one of a later attempt takes the place of an earlier one's of its name.
  // INVALID_ARGUMENT for a malformed one; RESOURCE_EXHAUSTED as BeginUpload.
  absl::Status PutSample(const std::string& job, int32_t attempt, const v1::Sample& sample);
  // Deletes the samples of a job, soon. Quick.
  void DeleteJob(std::string job);

  // What the thread does every hour (artifact_sweep.cc): deletes what is expired, and samples of jobs that are not
  // there any more.
  absl::Status Sweep();
  // On the disk, partial uploads included.
  int64_t num_bytes() const;

 private:
  friend class ArtifactUpload;
  // An upload by name, in memory, for what must not wait for the disk.
  struct Upload {
    int num_holds = 0;
    bool deleting = false;
    absl::Time use_time;
    absl::Time stored_use_time;
  };
  // A content that is not whole.
  struct Partial {
    int64_t received_bytes = 0;
    uint64_t owner = 0;    // the upload that may add to it
    bool is_busy = false;  // it is written, read back or dropped: nobody may take over
    absl::Time write_time;
  };
  ArtifactStore(Options options, ArtifactIndex index) : options_(std::move(options)), index_(std::move(index)) {}
  std::string PathOf(const std::string& sha256) const { return options_.folder + "/" + sha256; }
  std::string PartialPathOf(const std::string& sha256) const { return PathOf(sha256) + ".partial"; }
  absl::Status Recover();
  absl::Status RecoverFile(const std::string& file_name, const std::map<std::string, int64_t>& contents);
  // Takes them out of `contents`, too.
  absl::Status DropNamesWithoutContent(std::map<std::string, int64_t>* contents)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(index_mutex_);
  // Of the disk.
  int64_t FreeBytes() const;
  // `free_bytes`: FreeBytes(), asked for before the lock is taken.
  absl::Status CheckRoom(int64_t wanted_bytes, int64_t free_bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::StatusOr<ArtifactRow> FindRow(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(index_mutex_);
  // Removes the name, and the content when that was its last one.
  absl::Status RemoveName(const v1::Artifact& artifact) ABSL_EXCLUSIVE_LOCKS_REQUIRED(index_mutex_);
  absl::Status RemoveContentWithoutName(const v1::Artifact& artifact) ABSL_EXCLUSIVE_LOCKS_REQUIRED(index_mutex_);
  absl::Status AddContent(const std::string& sha256, std::string_view content);
  // `used_before`: as DeleteUnlessUsed.
  absl::Status MarkDeleting(const std::string& name, absl::Time used_before);
  void FinishDeleting(const std::string& name, bool deleted);

  absl::StatusOr<std::optional<v1::Artifact>> FindUpload(const std::string& sha256);
  absl::StatusOr<uint64_t> ClaimPartial(const v1::UploadArtifactRequest& request);
  // Of ArtifactUpload. Between the two the upload has the file to itself; one that is not the owner any more gets
  // ABORTED (reason UPLOAD_TAKEN_OVER).
  absl::Status BeginWrite(const std::string& sha256, uint64_t owner, int64_t num_bytes);
  void EndWrite(const std::string& sha256, int64_t num_bytes, bool ok);
  // `is_over`: nothing of the partial content is left.
  void EndFinish(const std::string& sha256, bool is_over);
  absl::StatusOr<v1::Artifact> Record(const std::string& sha256, int64_t size_bytes, const std::string& file_name);

  void Work();
  void Tell(const absl::Status& status) const;
  absl::Status DeleteSamples(const std::string& job);
  void DropOldPartials();
  absl::Status DeleteUnusedUploads();
  // Delete, of an upload that nobody has asked for since `used_before`; FAILED_PRECONDITION for others.
  absl::Status DeleteUnlessUsed(const std::string& name, absl::Time used_before);
  absl::Status StoreUseTimes();
  bool HasWorkOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || !deleted_jobs_.empty(); }

  const Options options_;
  std::thread thread_;

  // Held over calls of the index and over the moves of files that are to agree with it, so it is waited for as a disk
  // is.
  absl::Mutex index_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  ArtifactIndex index_ ABSL_GUARDED_BY(index_mutex_);

  // Never held while the disk is waited for.
  mutable absl::Mutex mutex_;
  std::map<std::string, Upload> uploads_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Partial> partials_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_owner_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> deleted_jobs_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// INVALID_ARGUMENT naming `field` unless `sha256` is 64 hexadecimal digits in lower case.
absl::Status CheckDigest(std::string_view field, std::string_view sha256);

}  // namespace ampd::server
