#include "tests/base/faulty_vfs.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ampd::server {
namespace {

constexpr int64_t kSectorBytes = 512;

bool IsSharedMemory(const std::string& path) { return absl::EndsWith(path, "-shm"); }

std::string BytesOf(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

}  // namespace

// An open file, as SQLite sees it. SQLite allocates one block of memory for it: first this struct, which begins with
// SQLite's own `base`, and then the file object of the system's VFS.
struct FaultyVfs::OpenFile {
  sqlite3_file base;
  FaultyVfs* owner;
  std::string* path;

  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  int Count(const char* call, int io_error) { return owner->Count(call, *path, io_error); }
};

struct FaultyVfs::Methods {
  static OpenFile& Of(sqlite3_file* file) { return *reinterpret_cast<OpenFile*>(file); }
  static FaultyVfs& Of(sqlite3_vfs* vfs) { return *static_cast<FaultyVfs*>(vfs->pAppData); }

  static int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
    FaultyVfs& owner = Of(vfs);
    OpenFile& open = Of(file);
    open.base.pMethods = nullptr;
    const std::string path = name == nullptr ? "" : name;
    if (const int failure = owner.Count("open", path, SQLITE_CANTOPEN); failure != SQLITE_OK) {
      return failure;
    }
    const bool created = !path.empty() && !std::filesystem::exists(path);
    const int result = owner.real_->xOpen(owner.real_, name, open.real(), flags, out_flags);
    if (open.real()->pMethods == nullptr) {
      return result;
    }
    open.base.pMethods = Table();
    open.owner = &owner;
    open.path = new std::string(path);
    owner.Track(path, created && result == SQLITE_OK);
    return result;
  }

  static int Delete(sqlite3_vfs* vfs, const char* name, int sync_folder) {
    FaultyVfs& owner = Of(vfs);
    if (const int failure = owner.Count("delete", name, SQLITE_IOERR_DELETE); failure != SQLITE_OK) {
      return failure;
    }
    // The last argument, 0, keeps the system's VFS from syncing the folder, because this class decides which deletions
    // are durable.
    const int result = owner.real_->xDelete(owner.real_, name, 0);
    if (result == SQLITE_OK) {
      owner.Record(name, {Change::kDelete});
      if (sync_folder != 0) {
        owner.Synced(name);
      }
    }
    return result;
  }

  static int Access(sqlite3_vfs* vfs, const char* name, int flags, int* result) {
    FaultyVfs& owner = Of(vfs);
    const int failure = owner.Count("access", name, SQLITE_IOERR_ACCESS);
    return failure != SQLITE_OK ? failure : owner.real_->xAccess(owner.real_, name, flags, result);
  }

  static int FullPathname(sqlite3_vfs* vfs, const char* name, int size, char* out) {
    return Of(vfs).real_->xFullPathname(Of(vfs).real_, name, size, out);
  }

  static int Close(sqlite3_file* file) {
    OpenFile& open = Of(file);
    delete open.path;
    return open.real()->pMethods->xClose(open.real());
  }

  static int Read(sqlite3_file* file, void* bytes, int count, sqlite3_int64 offset) {
    const int failure = Of(file).Count("read", SQLITE_IOERR_READ);
    return failure != SQLITE_OK ? failure : Of(file).real()->pMethods->xRead(Of(file).real(), bytes, count, offset);
  }

  static int Write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 offset) {
    OpenFile& open = Of(file);
    if (const int failure = open.Count("write", SQLITE_IOERR_WRITE); failure != SQLITE_OK) {
      return failure;
    }
    open.owner->Record(*open.path, {Change::kWrite, offset, {static_cast<const char*>(bytes), size_t(count)}});
    return open.real()->pMethods->xWrite(open.real(), bytes, count, offset);
  }

  static int Truncate(sqlite3_file* file, sqlite3_int64 size) {
    OpenFile& open = Of(file);
    if (const int failure = open.Count("truncate", SQLITE_IOERR_TRUNCATE); failure != SQLITE_OK) {
      return failure;
    }
    open.owner->Record(*open.path, {Change::kTruncate, size});
    return open.real()->pMethods->xTruncate(open.real(), size);
  }

  static int Sync(sqlite3_file* file, int) {
    OpenFile& open = Of(file);
    if (const int failure = open.Count("sync", SQLITE_IOERR_FSYNC); failure != SQLITE_OK) {
      open.owner->LoseWrites(*open.path);
      return failure;
    }
    open.owner->Synced(*open.path);
    return SQLITE_OK;
  }

  static int FileSize(sqlite3_file* file, sqlite3_int64* size) {
    const int failure = Of(file).Count("size", SQLITE_IOERR_FSTAT);
    return failure != SQLITE_OK ? failure : Of(file).real()->pMethods->xFileSize(Of(file).real(), size);
  }

  static int ShmMap(sqlite3_file* file, int page, int size, int extend, void volatile** out) {
    const int failure = Of(file).Count("map", extend != 0 ? SQLITE_IOERR_SHMSIZE : SQLITE_IOERR_SHMMAP);
    return failure != SQLITE_OK ? failure
                                : Of(file).real()->pMethods->xShmMap(Of(file).real(), page, size, extend, out);
  }

  static int Lock(sqlite3_file* file, int lock) { return Of(file).real()->pMethods->xLock(Of(file).real(), lock); }
  static int Unlock(sqlite3_file* file, int lock) { return Of(file).real()->pMethods->xUnlock(Of(file).real(), lock); }
  static int CheckReservedLock(sqlite3_file* file, int* result) {
    return Of(file).real()->pMethods->xCheckReservedLock(Of(file).real(), result);
  }
  static int FileControl(sqlite3_file* file, int op, void* argument) {
    return Of(file).real()->pMethods->xFileControl(Of(file).real(), op, argument);
  }
  static int SectorSize(sqlite3_file* file) { return Of(file).real()->pMethods->xSectorSize(Of(file).real()); }
  static int DeviceCharacteristics(sqlite3_file* file) {
    return Of(file).real()->pMethods->xDeviceCharacteristics(Of(file).real());
  }
  static int ShmLock(sqlite3_file* file, int offset, int count, int flags) {
    return Of(file).real()->pMethods->xShmLock(Of(file).real(), offset, count, flags);
  }
  static void ShmBarrier(sqlite3_file* file) { Of(file).real()->pMethods->xShmBarrier(Of(file).real()); }
  static int ShmUnmap(sqlite3_file* file, int remove) {
    return Of(file).real()->pMethods->xShmUnmap(Of(file).real(), remove);
  }

  // Returns the table of functions that SQLite calls for a file. Version 2 of the table supports shared memory but not
  // memory-mapped files: writes to a mapped file could not be counted.
  static const sqlite3_io_methods* Table() {
    static const sqlite3_io_methods table = {2,
                                             Close,
                                             Read,
                                             Write,
                                             Truncate,
                                             Sync,
                                             FileSize,
                                             Lock,
                                             Unlock,
                                             CheckReservedLock,
                                             FileControl,
                                             SectorSize,
                                             DeviceCharacteristics,
                                             ShmMap,
                                             ShmLock,
                                             ShmBarrier,
                                             ShmUnmap};
    return &table;
  }
};

FaultyVfs::FaultyVfs() : real_(sqlite3_vfs_find(nullptr)), vfs_(*real_) {
  vfs_.pNext = nullptr;
  vfs_.zName = "faulty";
  vfs_.pAppData = this;
  vfs_.szOsFile = static_cast<int>(sizeof(OpenFile)) + real_->szOsFile;
  vfs_.xOpen = Methods::Open;
  vfs_.xDelete = Methods::Delete;
  vfs_.xAccess = Methods::Access;
  vfs_.xFullPathname = Methods::FullPathname;
  sqlite3_vfs_register(&vfs_, /*makeDflt=*/1);
}

FaultyVfs::~FaultyVfs() {
  sqlite3_vfs_unregister(&vfs_);
  sqlite3_vfs_register(real_, /*makeDflt=*/1);
}

void FaultyVfs::Arm(int64_t nth, bool sticky, Fault fault) {
  absl::MutexLock lock(&mutex_);
  nth_ = nth;
  sticky_ = sticky;
  fault_ = fault;
  num_calls_ = 0;
  failed_call_.clear();
}

void FaultyVfs::Disarm() {
  absl::MutexLock lock(&mutex_);
  nth_ = 0;
}

std::string FaultyVfs::failed_call() const {
  absl::MutexLock lock(&mutex_);
  return failed_call_;
}

void FaultyVfs::Record(const std::string& path, Change change) {
  absl::MutexLock lock(&mutex_);
  files_[path].since.push_back(std::move(change));
}

void FaultyVfs::LoseWrites(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  files_[path].since.clear();
}

int FaultyVfs::Count(const char* call, const std::string& path, int io_error) {
  absl::MutexLock lock(&mutex_);
  const bool takes_room = io_error == SQLITE_IOERR_WRITE || io_error == SQLITE_IOERR_SHMSIZE;
  if (fault_ == Fault::kFull && !takes_room) {
    return SQLITE_OK;
  }
  ++num_calls_;
  if (nth_ == 0 || num_calls_ < nth_ || (num_calls_ > nth_ && !sticky_)) {
    return SQLITE_OK;
  }
  if (failed_call_.empty()) {
    failed_call_ = absl::StrCat(call, " ", std::filesystem::path(path).filename().string());
  }
  return fault_ == Fault::kFull && io_error == SQLITE_IOERR_WRITE ? SQLITE_FULL : io_error;
}

void FaultyVfs::Track(const std::string& path, bool created) {
  absl::MutexLock lock(&mutex_);
  const auto [file, is_new] = files_.try_emplace(path);
  if (created) {
    file->second.since.push_back({Change::kCreate});
  } else if (is_new) {
    file->second.synced = {true, BytesOf(path)};
  }
}

void FaultyVfs::TakeFolder(const std::string& folder) {
  {
    absl::MutexLock lock(&mutex_);
    files_.clear();
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    Track(entry.path().string(), /*created=*/false);
  }
}

void FaultyVfs::Apply(const Change& change, Content& content) {
  content.exists = change.kind != Change::kDelete;
  if (change.kind == Change::kCreate || change.kind == Change::kDelete) {
    content.bytes.clear();
  } else if (change.kind == Change::kTruncate) {
    content.bytes.resize(static_cast<size_t>(change.offset));
  } else {
    const size_t end = static_cast<size_t>(change.offset) + change.bytes.size();
    content.bytes.resize(std::max(content.bytes.size(), end));
    std::memcpy(content.bytes.data() + change.offset, change.bytes.data(), change.bytes.size());
  }
}

void FaultyVfs::Synced(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  TrackedFile& file = files_[path];
  // SQLite's unixSync syncs the folder at the first sync of a new WAL or rollback journal. This makes earlier deletions
  // durable, so they survive a simulated power cut from now on.
  if (!file.since.empty() && file.since.front().kind == Change::kCreate && absl::StrContains(path, ".db-")) {
    for (auto& [other_path, other] : files_) {
      if (!other.since.empty() && other.since.back().kind == Change::kDelete) {
        other = TrackedFile();
      }
    }
  }
  for (const Change& change : file.since) {
    Apply(change, file.synced);
  }
  file.since.clear();
}

void FaultyVfs::LeaveAfterPowerCut(Survivors survivors, RandomSource& random, const std::string& folder) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [path, file] : files_) {
    Content left = file.synced;
    for (Change change : file.since) {
      const uint64_t draw = survivors == Survivors::kSome ? random.Next() % 4 : 0;
      if (survivors == Survivors::kNone || draw == 1) {
        continue;
      }
      if (change.kind == Change::kWrite && draw == 2) {
        const int64_t sectors = static_cast<int64_t>(change.bytes.size()) / kSectorBytes;
        change.bytes.resize(random.Next() % (sectors + 1) * kSectorBytes);
      }
      Apply(change, left);
    }
    if (left.exists && !IsSharedMemory(path)) {
      std::ofstream(folder + "/" + std::filesystem::path(path).filename().string(), std::ios::binary) << left.bytes;
    }
  }
}

}  // namespace ampd::server
