#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/random.h"

namespace ampd::server {

// A SQLite file system (VFS) that injects faults and knows which files a power cut would leave behind. It wraps the
// system's VFS and is SQLite's default while it exists, so the code under test opens its files through it without being
// changed.
//
// It counts the calls that reach the disk: open, read, write, truncate, sync, size, delete, access and the mapping of
// shared memory. For every file it keeps the synced content and the changes since the last sync. A failed sync discards
// the writes that it should have made durable, as Linux does. Thread-safe.
class FaultyVfs {
 public:
  enum class Fault {
    kIo,    // Each call fails with its kind of SQLITE_IOERR, but an open with SQLITE_CANTOPEN.
    kFull,  // Writes fail with SQLITE_FULL, shared memory with SQLITE_IOERR_SHMSIZE; other calls work.
  };
  // Which of the unsynced changes survive a power cut.
  enum class Survivors { kNone, kAll, kSome };

  FaultyVfs();
  ~FaultyVfs();
  FaultyVfs(const FaultyVfs&) = delete;
  FaultyVfs& operator=(const FaultyVfs&) = delete;

  // Restarts the count of calls and makes call number `nth`, counted from 1, fail with `fault`. If `sticky`, every
  // later call fails too.
  void Arm(int64_t nth, bool sticky, Fault fault = Fault::kIo);
  void Disarm();
  bool fired() const { return !failed_call().empty(); }
  // The first call that was made to fail, for example "write journal.db-wal".
  std::string failed_call() const;

  // Writes into `folder` the files that a power cut at this moment would leave. With kSome, `random` decides for each
  // unsynced change whether it is kept, lost or, if it is a write, torn at a sector boundary. Shared memory never
  // survives.
  void LeaveAfterPowerCut(Survivors survivors, RandomSource& random, const std::string& folder) const;
  // Forgets all recorded changes and treats the present content of the files in `folder` as synced.
  void TakeFolder(const std::string& folder);

 private:
  struct Change {
    enum Kind { kCreate, kWrite, kTruncate, kDelete } kind;
    int64_t offset = 0;  // The new size for kTruncate.
    std::string bytes;
  };
  struct Content {
    bool exists = false;
    std::string bytes;
  };
  struct TrackedFile {
    Content synced;
    std::vector<Change> since;
  };
  struct OpenFile;
  struct Methods;

  // Counts one call. Returns SQLITE_OK, or the error that the call returns instead of reaching the disk.
  int Count(const char* call, const std::string& path, int io_error);
  // Starts to record a file that was opened. If `created`, records its creation. Otherwise, if the file is not recorded
  // yet, its present content counts as synced.
  void Track(const std::string& path, bool created);
  void Record(const std::string& path, Change change);
  void Synced(const std::string& path);
  void LoseWrites(const std::string& path);
  static void Apply(const Change& change, Content& content);

  sqlite3_vfs* real_;
  sqlite3_vfs vfs_;
  mutable absl::Mutex mutex_;
  std::map<std::string, TrackedFile> files_ ABSL_GUARDED_BY(mutex_);
  int64_t nth_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool sticky_ ABSL_GUARDED_BY(mutex_) = false;
  Fault fault_ ABSL_GUARDED_BY(mutex_) = Fault::kIo;
  std::string failed_call_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
