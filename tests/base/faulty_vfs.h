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

// A file system for SQLite that fails on order and knows what a power cut would leave. It stands before the system's
// own and is the default as long as it lives, so that the code under test opens its files through it and knows nothing.
//
// Counted are the calls that reach the disk: open, read, write, truncate, sync, size, delete, access and the mapping of
// shared memory. Every file has, beside its content, what was synced and the writes since. A sync that fails loses the
// writes that it was for, as Linux does. Thread-safe.
class FaultyVfs {
 public:
  enum class Fault {
    kIo,    // SQLITE_IOERR of the call's kind; SQLITE_CANTOPEN of an open
    kFull,  // SQLITE_FULL of writes, SQLITE_IOERR_SHMSIZE of the shared memory; other calls work
  };
  // Which of the writes that were not synced outlast a power cut.
  enum class Survivors { kNone, kAll, kSome };

  FaultyVfs();
  ~FaultyVfs();
  FaultyVfs(const FaultyVfs&) = delete;
  FaultyVfs& operator=(const FaultyVfs&) = delete;

  // Counts calls anew and lets the `nth` of them fail, numbered from 1, and every later one too when `sticky`.
  void Arm(int64_t nth, bool sticky, Fault fault = Fault::kIo);
  void Disarm();
  bool fired() const { return !failed_call().empty(); }
  // The first call that failed: "write journal.db-wal".
  std::string failed_call() const;

  // Writes into `folder` the files that a power cut at this moment leaves. kSome draws each write that was not synced
  // from `random`: kept, lost, or torn at a sector. Shared memory is never left.
  void LeaveAfterPowerCut(Survivors survivors, RandomSource& random, const std::string& folder) const;
  // Begins anew with the folder's files: what they hold now is what was synced.
  void TakeFolder(const std::string& folder);

 private:
  struct Change {
    enum Kind { kCreate, kWrite, kTruncate, kDelete } kind;
    int64_t offset = 0;  // of kTruncate the new size
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

  // SQLITE_OK, or what the call is to return instead of reaching the disk.
  int Count(const char* call, const std::string& path, int io_error);
  // Takes the file's present content for synced, unless the file is known.
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
