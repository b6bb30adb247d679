#include "worker/agent/artifacts/artifact_cache.h"

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
#include "base/formats/sha256.h"
#include "base/status_macros.h"
#include "base/timed_wait.h"

namespace ampd::agent {
namespace {

namespace fs = std::filesystem;

// The server's final answers (no such artifact, a bad request or damaged data) stay; all other errors become
// UNAVAILABLE, so that the download is retried.
absl::Status OfServer(const absl::Status& said) {
  const bool is_final = absl::IsNotFound(said) || absl::IsInvalidArgument(said) || absl::IsDataLoss(said);
  return said.ok() || is_final ? said : absl::UnavailableError(said.message());
}

// Marks an error as this host's (DISK_FULL or DEVICE_ERROR), whatever the system call returned: the artifact is intact.
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
  std::erase_if(wanted_, [&](const auto& entry) { return !sha256s.contains(entry.first); });
  for (const std::string& sha256 : sha256s) {
    wanted_.try_emplace(sha256);
  }
}

ArtifactCache::Look ArtifactCache::Find(const std::string& sha256) const {
  absl::MutexLock lock(&mutex_);
  const auto found = wanted_.find(sha256);
  return found == wanted_.end() ? Look() : found->second.look;
}

bool ArtifactCache::IsWanted(const std::string& sha256) const {
  absl::MutexLock lock(&mutex_);
  return !closed_ && wanted_.contains(sha256);
}

bool ArtifactCache::HasNewsOrClosed() const {
  return closed_ ||
         std::any_of(wanted_.begin(), wanted_.end(), [](const auto& entry) { return !entry.second.is_looked_for; });
}

void ArtifactCache::Work() {
  while (AwaitWork()) {
    LookForFiles();
    if (const std::string sha256 = NextToGet(); !sha256.empty()) {
      absl::Status got = Get(sha256);
      Evict(options_.max_bytes);
      if (absl::IsUnavailable(got) || absl::IsCancelled(got)) {
        AskLater(sha256, got);
      } else {
        Know(sha256, std::move(got));
      }
    }
  }
}

bool ArtifactCache::AwaitWork() {
  absl::MutexLock lock(&mutex_);
  absl::Duration ask_at = absl::InfiniteDuration();
  for (const auto& [sha256, wanted] : wanted_) {
    ask_at = wanted.look.state == Look::PENDING ? std::min(ask_at, wanted.ask_at) : ask_at;
  }
  AwaitFor(mutex_, absl::Condition(this, &ArtifactCache::HasNewsOrClosed), ask_at - options_.clock->SinceBoot());
  return !closed_;
}

std::string ArtifactCache::NextToLookFor() {
  absl::MutexLock lock(&mutex_);
  for (auto& [sha256, wanted] : wanted_) {
    if (!std::exchange(wanted.is_looked_for, true)) {
      return sha256;
    }
  }
  return "";
}

void ArtifactCache::LookForFiles() {
  for (std::string sha256 = NextToLookFor(); !sha256.empty(); sha256 = NextToLookFor()) {
    // The modification time records the last use.
    if (utimensat(AT_FDCWD, PathOf(sha256).c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) {
      Know(sha256, absl::OkStatus());
    }
  }
}

std::string ArtifactCache::NextToGet() {
  absl::MutexLock lock(&mutex_);
  const absl::Duration now = options_.clock->SinceBoot();
  const Wanted* next = nullptr;
  std::string name;
  for (const auto& [sha256, wanted] : wanted_) {
    const bool is_to_get = wanted.look.state == Look::PENDING && wanted.is_looked_for && wanted.ask_at <= now;
    if (is_to_get && (next == nullptr || wanted.ask_at < next->ask_at)) {
      next = &wanted;
      name = sha256;
    }
  }
  return name;
}

// `got` is moved in whole, so that no state is shared with the thread that made it.
void ArtifactCache::Know(const std::string& sha256, absl::Status got) {
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = wanted_.find(sha256); found != wanted_.end()) {
      found->second.look = {got.ok() ? Look::READY : Look::FAILED, std::move(got)};
    }
  }
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void ArtifactCache::AskLater(const std::string& sha256, const absl::Status& got) {
  bool is_first_try = false;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = wanted_.find(sha256); found != wanted_.end()) {
      Wanted& wanted = found->second;
      is_first_try = wanted.pause == absl::ZeroDuration();
      wanted.pause = is_first_try ? options_.first_pause : std::min(wanted.pause * 2, options_.last_pause);
      wanted.ask_at = options_.clock->SinceBoot() + wanted.pause;
    }
  }
  if (is_first_try) {
    options_.log(absl::StrCat("can't fetch artifact ", sha256, " now: ", std::string(got.message())));
  }
}

absl::Status ArtifactCache::Get(const std::string& sha256) {
  AMPD_RETURN_IF_ERROR(OfThisHost(MakeFolder(options_.folder)));
  absl::Status got = GetOnce(sha256);
  if (absl::IsResourceExhausted(got)) {
    Evict(/*max_bytes=*/0);
    got = GetOnce(sha256);
  }
  if (absl::IsResourceExhausted(got)) {
    (void)unlink((PathOf(sha256) + ".partial").c_str());
  }
  return got;
}

// A partial file may hold the rest of a torn write. If it does not match, the whole artifact is downloaded again.
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
    LookForFiles();
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

// Partial files count towards the limit and are deleted like others.
void ArtifactCache::Evict(int64_t max_bytes) {
  struct File {
    fs::file_time_type used;
    std::string path;
    std::string sha256;
    int64_t num_bytes;
  };
  std::vector<File> files;
  int64_t num_bytes = 0;
  std::error_code error;
  fs::directory_iterator entry(options_.folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code unknown;  // the file may be gone, or the entry may not be a file
    const uintmax_t size = entry->file_size(unknown);
    const fs::file_time_type used = unknown ? fs::file_time_type() : entry->last_write_time(unknown);
    if (!unknown) {
      files.push_back({used, entry->path().string(), entry->path().stem().string(), static_cast<int64_t>(size)});
      num_bytes += files.back().num_bytes;
    }
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    // Checked for each file, because an artifact may become wanted meanwhile.
    if (num_bytes > max_bytes && !IsWanted(file.sha256) && unlink(file.path.c_str()) == 0) {
      num_bytes -= file.num_bytes;
    }
  }
}

}  // namespace ampd::agent
