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

// Returns an error unchanged if a retry can't repair it: a missing artifact, a bad request, damaged data. Turns every
// other error into UNAVAILABLE, so that the caller retries the download.
absl::Status AsServerError(const absl::Status& downloaded) {
  const bool is_final =
      absl::IsNotFound(downloaded) || absl::IsInvalidArgument(downloaded) || absl::IsDataLoss(downloaded);
  return downloaded.ok() || is_final ? downloaded : absl::UnavailableError(downloaded.message());
}

// Marks an error of a file operation as a fault of this host. DISK_FULL stays as it is, and every other error becomes
// DEVICE_ERROR, because the caller takes a plain NOT_FOUND as a missing artifact.
absl::Status AsHostError(const absl::Status& failed) {
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
  thread_ = std::thread([this] { DownloadWanted(); });
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

ArtifactCache::Lookup ArtifactCache::Find(const std::string& sha256) const {
  absl::MutexLock lock(&mutex_);
  const auto found = wanted_.find(sha256);
  return found == wanted_.end() ? Lookup() : found->second.lookup;
}

bool ArtifactCache::IsWanted(const std::string& sha256) const {
  absl::MutexLock lock(&mutex_);
  return !closed_ && wanted_.contains(sha256);
}

bool ArtifactCache::HasUnsearchedOrClosed() const {
  return closed_ ||
         std::any_of(wanted_.begin(), wanted_.end(), [](const auto& entry) { return !entry.second.is_searched; });
}

void ArtifactCache::DownloadWanted() {
  while (AwaitWork()) {
    FindLocalFiles();
    if (const std::string sha256 = NextToDownload(); !sha256.empty()) {
      absl::Status got = Fetch(sha256);
      Evict(options_.max_bytes);
      if (absl::IsUnavailable(got) || absl::IsCancelled(got)) {
        ScheduleRetry(sha256, got);
      } else {
        RecordResult(sha256, std::move(got));
      }
    }
  }
}

bool ArtifactCache::AwaitWork() {
  absl::MutexLock lock(&mutex_);
  absl::Duration try_at = absl::InfiniteDuration();
  for (const auto& [sha256, wanted] : wanted_) {
    try_at = wanted.lookup.state == Lookup::PENDING ? std::min(try_at, wanted.try_at) : try_at;
  }
  AwaitFor(mutex_, absl::Condition(this, &ArtifactCache::HasUnsearchedOrClosed), try_at - options_.clock->SinceBoot());
  return !closed_;
}

std::string ArtifactCache::NextUnsearched() {
  absl::MutexLock lock(&mutex_);
  for (auto& [sha256, wanted] : wanted_) {
    if (!std::exchange(wanted.is_searched, true)) {
      return sha256;
    }
  }
  return "";
}

void ArtifactCache::FindLocalFiles() {
  for (std::string sha256 = NextUnsearched(); !sha256.empty(); sha256 = NextUnsearched()) {
    // The file's modification time records when the artifact was last used.
    if (utimensat(AT_FDCWD, PathOf(sha256).c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) {
      RecordResult(sha256, absl::OkStatus());
    }
  }
}

std::string ArtifactCache::NextToDownload() {
  absl::MutexLock lock(&mutex_);
  const absl::Duration now = options_.clock->SinceBoot();
  const Wanted* next = nullptr;
  std::string name;
  for (const auto& [sha256, wanted] : wanted_) {
    const bool is_due = wanted.lookup.state == Lookup::PENDING && wanted.is_searched && wanted.try_at <= now;
    if (is_due && (next == nullptr || wanted.try_at < next->try_at)) {
      next = &wanted;
      name = sha256;
    }
  }
  return name;
}

// Takes `got` by value and moves it, so that no other thread shares the stored status.
void ArtifactCache::RecordResult(const std::string& sha256, absl::Status got) {
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = wanted_.find(sha256); found != wanted_.end()) {
      found->second.lookup = {got.ok() ? Lookup::READY : Lookup::FAILED, std::move(got)};
    }
  }
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void ArtifactCache::ScheduleRetry(const std::string& sha256, const absl::Status& got) {
  bool is_first_try = false;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = wanted_.find(sha256); found != wanted_.end()) {
      Wanted& wanted = found->second;
      is_first_try = wanted.pause == absl::ZeroDuration();
      wanted.pause = is_first_try ? options_.first_pause : std::min(wanted.pause * 2, options_.last_pause);
      wanted.try_at = options_.clock->SinceBoot() + wanted.pause;
    }
  }
  if (is_first_try) {
    options_.log(absl::StrCat("can't fetch artifact ", sha256, " and will retry: ", std::string(got.message())));
  }
}

absl::Status ArtifactCache::Fetch(const std::string& sha256) {
  AMPD_RETURN_IF_ERROR(AsHostError(MakeFolder(options_.folder)));
  absl::Status got = FetchOnce(sha256);
  if (absl::IsResourceExhausted(got)) {
    Evict(/*max_bytes=*/0);
    got = FetchOnce(sha256);
  }
  if (absl::IsResourceExhausted(got)) {
    (void)unlink((PathOf(sha256) + ".partial").c_str());
  }
  return got;
}

// Downloads the bytes that the partial file lacks, and verifies the content. If the partial file existed before and
// the digest does not match, an interrupted write may have left damaged bytes in it. In that case deletes the file
// and downloads the whole artifact again.
absl::Status ArtifactCache::FetchOnce(const std::string& sha256) {
  const std::string partial = PathOf(sha256) + ".partial";
  const bool resumes = access(partial.c_str(), F_OK) == 0;
  absl::Status got = DownloadRest(sha256);
  if (got.ok()) {
    got = Verify(sha256);
  }
  if (resumes && (absl::IsDataLoss(got) || absl::IsInvalidArgument(got))) {
    (void)unlink(partial.c_str());
    AMPD_RETURN_IF_ERROR(DownloadRest(sha256));
    got = Verify(sha256);
  }
  if (absl::IsDataLoss(got) || absl::IsNotFound(got)) {
    (void)unlink(partial.c_str());
  }
  return got;
}

absl::Status ArtifactCache::DownloadRest(const std::string& sha256) {
  const UniqueFd file(
      open((PathOf(sha256) + ".partial").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat status = {};
  if (!file.ok() || fstat(file.get(), &status) != 0) {
    return AsHostError(ErrnoError(errno, "open an artifact's file"));
  }
  absl::Status written;
  const absl::Status downloaded = options_.source->Download(sha256, status.st_size, [&](std::string_view piece) {
    FindLocalFiles();
    written = IsWanted(sha256) ? AsHostError(options_.write(file.get(), piece))
                               : absl::CancelledError("no attempt needs the artifact any longer");
    return written;
  });
  AMPD_RETURN_IF_ERROR(written);
  AMPD_RETURN_IF_ERROR(AsServerError(downloaded));
  return fsync(file.get()) == 0 ? absl::OkStatus() : AsHostError(ErrnoError(errno, "sync an artifact's file"));
}

absl::Status ArtifactCache::Verify(const std::string& sha256) {
  const std::string partial = PathOf(sha256) + ".partial";
  const absl::StatusOr<std::string> found = Sha256OfFile(partial);
  AMPD_RETURN_IF_ERROR(AsHostError(found.status()));
  if (*found != sha256) {
    return Error(absl::StatusCode::kDataLoss, "DIGEST_MISMATCH",
                 absl::StrCat("the downloaded content has the SHA-256 ", *found));
  }
  if (rename(partial.c_str(), PathOf(sha256).c_str()) != 0) {
    return AsHostError(ErrnoError(errno, "rename an artifact's file"));
  }
  return AsHostError(SyncFolder(options_.folder));
}

// Partial files count towards the limit and are deleted in the same way as complete files.
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
    // Call IsWanted for each file just before deleting it, because an artifact may become wanted in the meantime.
    if (num_bytes > max_bytes && !IsWanted(file.sha256) && unlink(file.path.c_str()) == 0) {
      num_bytes -= file.num_bytes;
    }
  }
}

}  // namespace ampd::agent
