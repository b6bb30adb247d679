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

// The audit log: files of JSON lines that only their owner can read (mode 0600). A line is a v1.AuditEntry. The trace
// of an entry is on a second line, because a server of ampd 0.1 skips lines with unknown fields. After a downgrade to
// 0.1, the server therefore skips only the traces. The newest file is `path`. When it is full, it is renamed to
// `path`.1, the previous `path`.1 to `path`.2, and so on; the oldest file is deleted. A thread writes the entries, so
// that no call waits for the disk; an entry is in the file within a second. If the queue of entries is full, because
// the disk is slow or full, entries are dropped, and the next entry counts them. Thread-safe.
class AuditLog {
 public:
  struct Options {
    std::string path;
    int64_t max_bytes = int64_t{64} << 20;  // Limit of one file.
    int num_old_files = 9;
  };

  // Opens the log. Returns an error of ErrnoError if its file can't be opened.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(Options options);
  // Writes the queued entries before it returns.
  ~AuditLog();

  void Add(v1::AuditEntry entry);

  // Answers AuthService.ListAuditEntries. Reads the disk; entries can be written meanwhile. RESOURCE_EXHAUSTED
  // (SERVER_BUSY) while another caller lists entries.
  absl::StatusOr<v1::ListAuditEntriesResponse> List(const v1::ListAuditEntriesRequest& request);

 private:
  explicit AuditLog(Options options) : options_(std::move(options)) {}
  absl::Status OpenFile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether `path` still names the file that is open.
  bool IsInPlace() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Rotate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write(const v1::AuditEntry& entry);
  // Waits at most one second until all entries that were added before this call are written.
  void AwaitWritten();
  // Opens the files of the log; the newest comes first.
  std::vector<UniqueFd> OpenAll();
  v1::ListAuditEntriesResponse ListNewest(const v1::ListAuditEntriesRequest& request, int limit);
  void Run();

  const Options options_;
  BoundedQueue<v1::AuditEntry> queue_{10'000};
  std::atomic<int64_t> num_left_out_ = 0;  // Entries dropped since the last one that was written.
  absl::Mutex count_mutex_;
  int64_t num_added_ ABSL_GUARDED_BY(count_mutex_) = 0;    // Entries added to the queue.
  int64_t num_written_ ABSL_GUARDED_BY(count_mutex_) = 0;  // Entries that the writer wrote or dropped.
  absl::Mutex listing_;                                    // Held while List runs.
  absl::Mutex mutex_;                                      // Held while a file is written or replaced.
  UniqueFd file_ ABSL_GUARDED_BY(mutex_);
  int64_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread writer_;
};

}  // namespace ampd::server
