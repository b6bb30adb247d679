#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "ampd/v1/auth_service.pb.h"
#include "base/bounded_queue.h"
#include "base/unique_fd.h"

namespace ampd::server {

// The audit log: files of JSON lines for their owner only (mode 0600). A line is a v1.AuditEntry. The trace of an entry
// is on a line of its own, behind the line with everything else: a server of ampd 0.1, which takes over the files after
// a downgrade, leaves out lines with fields that it does not know, and so leaves out only the traces. The newest file
// is `path`; when it is full it becomes `path`.1, that becomes `path`.2, and so on; the oldest is deleted. A thread
// writes the entries, so that no call waits for the disk; an entry is in the file within a second. If more entries wait
// than the queue holds, because the disk is slow or full, the rest is left out, and the next entry counts them.
// Thread-safe.
class AuditLog {
 public:
  struct Options {
    std::string path;
    int64_t max_bytes = int64_t{64} << 20;  // Of one file.
    int num_old_files = 9;
  };

  // FAILED_PRECONDITION if the file can't be opened.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(Options options);
  // Writes what is queued.
  ~AuditLog();

  void Add(v1::AuditEntry entry);

  // As AuthService.ListAuditEntries. Reads the disk; entries are written meanwhile. RESOURCE_EXHAUSTED (SERVER_BUSY) if
  // another caller does so.
  absl::StatusOr<v1::ListAuditEntriesResponse> List(const v1::ListAuditEntriesRequest& request);

 private:
  explicit AuditLog(Options options) : options_(std::move(options)) {}
  absl::Status OpenFile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether `path` names the file that is open.
  bool IsInPlace() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Rotate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write(const v1::AuditEntry& entry);
  // Waits, for a second at most, until the entries that were added before are written.
  void AwaitWritten();
  // The files, the newest first.
  std::vector<UniqueFd> OpenAll();
  v1::ListAuditEntriesResponse ListNewest(const v1::ListAuditEntriesRequest& request, int limit);
  void Run();

  const Options options_;
  BoundedQueue<v1::AuditEntry> queue_{10'000};
  std::atomic<int64_t> num_left_out_ = 0;  // Since the last entry that was written.
  absl::Mutex count_mutex_;
  int64_t num_added_ ABSL_GUARDED_BY(count_mutex_) = 0;    // To the queue.
  int64_t num_written_ ABSL_GUARDED_BY(count_mutex_) = 0;  // Or left out by the writer.
  absl::Mutex listing_;                                    // Held while entries are listed.
  absl::Mutex mutex_;                                      // Held while a file is written or replaced.
  UniqueFd file_ ABSL_GUARDED_BY(mutex_);
  int64_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread writer_;
};

}  // namespace ampd::server
