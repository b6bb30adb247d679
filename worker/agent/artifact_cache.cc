#include "worker/agent/artifact_cache.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace ampd::agent {
namespace {

namespace fs = std::filesystem;

// What the server said: that it has no such artifact, or UNAVAILABLE: it is worth asking again, whatever else went
// wrong on the way.
absl::Status OfServer(const absl::Status& said) {
  const bool is_final = absl::IsNotFound(said) || absl::IsInvalidArgument(said) || absl::IsDataLoss(said);
  return said.ok() || is_final ? said : absl::UnavailableError(said.message());
}

// What went wrong with the files here, whatever the system calls it: nothing of the artifact is wrong.
absl::Status OfThisHost(const absl::Status& failed) {
  return failed.ok() || ReasonOf(failed) == "DISK_FULL"
             ? failed
             : Error(absl::StatusCode::kInternal, "DEVICE_ERROR", std::string(failed.message()));
}

absl::Status MakeFolder(const std::string& folder) {
  return mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST ? absl::OkStatus()
                                                             : ErrnoError(errno, "make the folder of artifacts");
}

}  // namespace

ArtifactCache::ArtifactCache(Options options)
    : options_(std::move(options)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void ArtifactCache::Start() {
  thread_ = std::thread([this] { Work(); });
}

ArtifactCache::~ArtifactCache() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  options_.source->Cancel();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ArtifactCache::SetWanted(std::set<std::string> sha256s) {
  absl::MutexLock lock(&mutex_);
  wanted_ = std::move(sha256s);
  std::erase_if(known_, [this](const auto& entry)
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !wanted_.contains(entry.first); });
}

ArtifactCache::Look ArtifactCache::Find(const std::string& sha256) const {
  absl::MutexLock lock(&mutex_);
  const auto found = known_.find(sha256);
  if (found == known_.end()) {
    return Look();
  }
  return found->second.ok() ? Look{Look::READY, absl::OkStatus()} : Look{Look::FAILED, found->second};
}

std::string ArtifactCache::NextLocked() const {
  const auto next = std::find_if(wanted_.begin(), wanted_.end(),
                                 [this](const std::string& sha256)
                                     ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !known_.contains(sha256); });
  return next == wanted_.end() ? std::string() : *next;
}

bool ArtifactCache::IsWanted(const std::string& sha256) const {
  absl::MutexLock lock(&mutex_);
  return !closed_ && wanted_.contains(sha256);
}

void ArtifactCache::Work() {
  for (;;) {
    std::string sha256;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &ArtifactCache::HasWorkOrClosed));
      if (closed_) {
        return;
      }
      sha256 = NextLocked();
    }
    absl::Status got = Get(sha256);
    {
      absl::MutexLock lock(&mutex_);
      if (wanted_.contains(sha256) && !closed_) {
        known_[sha256] = std::move(got);
      }
    }
    Evict();
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof(one));
  }
}

absl::Status ArtifactCache::Get(const std::string& sha256) {
  AMPD_RETURN_IF_ERROR(OfThisHost(MakeFolder(options_.folder)));
  // Its time of change is when it was used last.
  if (utimensat(AT_FDCWD, PathOf(sha256).c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) {
    return absl::OkStatus();
  }
  absl::Duration pause = options_.first_pause;
  absl::Status got = GetOnce(sha256);
  while ((absl::IsUnavailable(got) || absl::IsCancelled(got)) && IsWanted(sha256)) {
    if (pause == options_.first_pause) {
      options_.log(absl::StrCat("can't fetch artifact ", sha256, " now: ", std::string(got.message())));
    }
    Pause(sha256, pause);
    pause = std::min(pause * 2, options_.last_pause);
    got = GetOnce(sha256);
  }
  return got;
}

// What was there before may be of a torn write: then all of it is got anew.
absl::Status ArtifactCache::GetOnce(const std::string& sha256) {
  const std::string partial = PathOf(sha256) + ".partial";
  const bool goes_on = access(partial.c_str(), F_OK) == 0;
  absl::Status got = Append(sha256);
  if (got.ok()) {
    got = Verify(sha256);
  }
  if (goes_on && (absl::IsDataLoss(got) || absl::IsInvalidArgument(got))) {
    (void)unlink(partial.c_str());
    AMPD_RETURN_IF_ERROR(Append(sha256));
    got = Verify(sha256);
  }
  if (absl::IsDataLoss(got) || absl::IsNotFound(got)) {
    (void)unlink(partial.c_str());
  }
  return got;
}

absl::Status ArtifactCache::Append(const std::string& sha256) {
  const UniqueFd file(
      open((PathOf(sha256) + ".partial").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat status = {};
  if (!file.ok() || fstat(file.get(), &status) != 0) {
    return OfThisHost(ErrnoError(errno, "open an artifact's file"));
  }
  absl::Status written;
  const absl::Status said = options_.source->Download(sha256, status.st_size, [&](std::string_view piece) {
    written = IsWanted(sha256) ? OfThisHost(options_.write(file.get(), piece))
                               : absl::CancelledError("it is not wanted any more");
    return written;
  });
  AMPD_RETURN_IF_ERROR(written);
  AMPD_RETURN_IF_ERROR(OfServer(said));
  return fsync(file.get()) == 0 ? absl::OkStatus() : OfThisHost(ErrnoError(errno, "sync an artifact's file"));
}

absl::Status ArtifactCache::Verify(const std::string& sha256) {
  const std::string partial = PathOf(sha256) + ".partial";
  const absl::StatusOr<std::string> found = Sha256OfFile(partial);
  AMPD_RETURN_IF_ERROR(OfThisHost(found.status()));
  if (*found != sha256) {
    return Error(absl::StatusCode::kDataLoss, "DIGEST_MISMATCH",
                 absl::StrCat("the content that came has the SHA-256 ", *found));
  }
  if (rename(partial.c_str(), PathOf(sha256).c_str()) != 0) {
    return OfThisHost(ErrnoError(errno, "rename an artifact's file"));
  }
  return OfThisHost(SyncFolder(options_.folder));
}

void ArtifactCache::Pause(const std::string& sha256, absl::Duration pause) {
  const auto is_over = [this, &sha256]()
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || !wanted_.contains(sha256); };
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&is_over), pause);
}

// Partial files count and go as others do.
void ArtifactCache::Evict() {
  struct File {
    fs::file_time_type used;
    std::string path;
    std::string sha256;
    int64_t num_bytes;
  };
  std::vector<File> files;
  int64_t num_bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.folder, error)) {
    const auto size = static_cast<int64_t>(entry.file_size(error));
    files.push_back({entry.last_write_time(error), entry.path().string(), entry.path().stem().string(), size});
    num_bytes += size;
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    // Asked anew for each: what became wanted meanwhile stays.
    if (num_bytes > options_.max_bytes && !IsWanted(file.sha256) && unlink(file.path.c_str()) == 0) {
      num_bytes -= file.num_bytes;
    }
  }
}

}  // namespace ampd::agent
