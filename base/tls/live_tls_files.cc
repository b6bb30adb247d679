#include "base/tls/live_tls_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/io/file.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Seconds(1);
// If the files do not fit together, LiveTlsFiles::Of reads them up to this many times at these intervals, because
// somebody may be replacing them at that moment.
constexpr int kNumFirstLooks = 10;
constexpr absl::Duration kBetweenFirstLooks = absl::Milliseconds(20);

std::string PathOf(const UniqueFd& fd) { return absl::StrCat("/proc/self/fd/", fd.get()); }

// Makes `fd` a descriptor of a file in memory with this text. The descriptor is replaced at one moment: whoever opens
// the path of `fd` gets either the whole old text or the whole new text.
absl::Status Replace(const std::string& text, UniqueFd* fd) {
  UniqueFd made(memfd_create("ampd-tls", MFD_CLOEXEC));
  if (!made.ok()) {
    return absl::ErrnoToStatus(errno, "memfd_create");
  }
  AMPD_RETURN_IF_ERROR(WriteAll(made.get(), text));
  if (!fd->ok()) {
    *fd = std::move(made);
  } else if (dup3(made.get(), fd->get(), O_CLOEXEC) < 0) {
    return absl::ErrnoToStatus(errno, "dup3");
  }
  return absl::OkStatus();
}

}  // namespace

// The copies of all TLS files that this process uses. The registry is never destroyed, because its own thread and
// gRPC's threads use the copies until the process ends.
class LiveTlsFiles::Registry {
 public:
  static Registry& OfProcess() {
    static Registry* const registry = new Registry();
    return *registry;
  }

  absl::StatusOr<const LiveTlsFiles*> Find(const TlsFiles& files) {
    const absl::MutexLock lock(&mutex_);
    for (const auto& live : live_) {
      if (live->files_ == files) {
        return live.get();
      }
    }
    auto live = std::unique_ptr<LiveTlsFiles>(new LiveTlsFiles(files));
    absl::Status read = live->Refresh();
    for (int i = 1; i < kNumFirstLooks && !read.ok(); ++i) {
      absl::SleepFor(kBetweenFirstLooks);
      read = live->Refresh();
    }
    AMPD_RETURN_IF_ERROR(read);
    live->SetPaths();
    return live_.emplace_back(std::move(live)).get();
  }

 private:
  Registry() {
    std::thread([this] { Run(); }).detach();
  }

  void Run() {
    while (true) {
      absl::SleepFor(kBetweenLooks);
      const absl::MutexLock lock(&mutex_);
      for (const auto& live : live_) {
        live->Refresh().IgnoreError();  // After an error the copies are unchanged.
      }
    }
  }

  absl::Mutex mutex_;
  std::vector<std::unique_ptr<LiveTlsFiles>> live_ ABSL_GUARDED_BY(mutex_);
};

void LiveTlsFiles::SetPaths() {
  paths_.ca = ca_.ok() ? PathOf(ca_) : "";
  paths_.certificate = paths_.key = certificate_and_key_.ok() ? PathOf(certificate_and_key_) : "";
}

absl::StatusOr<const LiveTlsFiles*> LiveTlsFiles::Of(const TlsFiles& files) {
  return Registry::OfProcess().Find(files);
}

absl::Status LiveTlsFiles::Refresh() {
  AMPD_ASSIGN_OR_RETURN(TlsTexts texts, ReadTlsFiles(files_));
  if (texts == texts_) {
    return absl::OkStatus();
  }
  if (!files_.ca.empty()) {
    AMPD_RETURN_IF_ERROR(Replace(texts.ca, &ca_));
  }
  if (!files_.certificate.empty()) {
    AMPD_RETURN_IF_ERROR(Replace(absl::StrCat(texts.certificate, "\n", texts.key), &certificate_and_key_));
  }
  texts_ = std::move(texts);
  return absl::OkStatus();
}

}  // namespace ampd
