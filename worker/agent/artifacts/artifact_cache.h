#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/io/file.h"
#include "worker/agent/artifacts/artifact_source.h"

namespace ampd::agent {

// Stores the artifacts (uploaded files that attempts need) of this worker, each in a file "<folder>/<sha256>". A thread
// downloads the wanted artifacts that are missing, one after the other.
//
// If the file of a wanted artifact exists already, the artifact becomes READY without a download. While another
// download runs, the thread looks for such files after each piece of that download. If the server is not available, a
// download is retried later and does not delay the others.
//
// Downloaded bytes are kept in "<sha256>.partial". An interrupted download resumes from there, also after a restart of
// the agent. The file gets its final name once its content matches the digest.
//
// When the files exceed `max_bytes`, the least recently used files are deleted. When the disk is full, the files of all
// artifacts that are not wanted are deleted. Thread-safe.
class ArtifactCache {
 public:
  struct Options {
    std::string folder;  // created by the first download
    int64_t max_bytes = int64_t{20} << 30;
    ArtifactSource* source = nullptr;
    const Clock* clock = nullptr;
    absl::Duration first_pause = absl::Milliseconds(100);  // before the first retry if the server can't be reached
    absl::Duration last_pause = absl::Seconds(5);
    std::function<void(const std::string&)> log;  // takes one line; called from any thread
    std::function<absl::Status(int fd, std::string_view bytes)> write = WriteAll;  // writes into a file of the folder
  };
  explicit ArtifactCache(Options options);
  void Start();
  // Cancels the download in progress. The next agent process resumes it.
  ~ArtifactCache();

  struct Lookup {
    enum State { PENDING, READY, FAILED } state = PENDING;
    // The reason for the state FAILED. If the server can't provide the artifact: NOT_FOUND, INVALID_ARGUMENT, or
    // DATA_LOSS (the content does not match the digest). If this host can't store it: RESOURCE_EXHAUSTED if its disk is
    // full, otherwise INTERNAL.
    absl::Status error;
  };
  // Replaces the set of artifacts that this worker's attempts need. The cache forgets all other artifacts and may
  // delete their files. Never blocks on I/O.
  void SetWanted(std::set<std::string> sha256s);
  // Returns the state of an artifact: PENDING until its file exists here or its download has failed for good. REQUIRES:
  // the artifact is wanted. Never blocks on I/O.
  Lookup Find(const std::string& sha256) const;
  const std::string& folder() const { return options_.folder; }
  // A descriptor that is readable when an artifact has become READY or FAILED. The caller reads eight bytes from it,
  // which resets it.
  int wake_fd() const { return wake_.get(); }

 private:
  struct Wanted {
    Lookup lookup;
    bool is_searched = false;  // whether the folder was searched for the artifact's file
    absl::Duration try_at;     // time of the next download try, while PENDING; since boot
    absl::Duration pause;      // delay before the next retry; 0: not tried yet
  };

  void DownloadWanted();
  // Waits until an artifact must be searched for or downloaded. Returns false once the cache is closed.
  bool AwaitWork();
  // Looks for the files of wanted artifacts in the folder, once per artifact, and marks those that exist as READY.
  void FindLocalFiles();
  std::string NextUnsearched();
  // The PENDING artifact whose download is due first; empty if no download is due.
  std::string NextToDownload();
  void RecordResult(const std::string& sha256, absl::Status got);
  void ScheduleRetry(const std::string& sha256, const absl::Status& got);
  bool HasUnsearchedOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsWanted(const std::string& sha256) const;
  // Downloads the artifact and verifies its content. Returns UNAVAILABLE if a retry may help, CANCELLED if the artifact
  // is no longer wanted.
  absl::Status Fetch(const std::string& sha256);
  absl::Status FetchOnce(const std::string& sha256);
  absl::Status DownloadRest(const std::string& sha256);
  absl::Status Verify(const std::string& sha256);
  // Deletes unwanted files, the least recently used first, until at most `max_bytes` are left.
  void Evict(int64_t max_bytes);
  std::string PathOf(const std::string& sha256) const { return options_.folder + "/" + sha256; }

  const Options options_;
  const UniqueFd wake_;
  std::thread thread_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Wanted> wanted_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::agent
