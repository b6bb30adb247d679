#include "worker/agent/state_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io/private_folder.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace ampd::agent {
namespace {

constexpr size_t kMaxPlaceBytes = 512;
constexpr int kIdCharacters = 26;  // 130 random bits
constexpr int kMaxIdBytes = 64;
constexpr absl::Duration kLockTimeout = absl::Seconds(3);
constexpr absl::Duration kBetweenLockTries = absl::Milliseconds(20);

absl::Status Unusable(const std::string& what, const std::string& folder, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("can't write ", what, " ", folder, ": ", why));
}

// Whoever knows the id can act as the agent, so only the agent's user may read the file.
absl::Status WriteSecret(const std::string& path, const std::string& secret) {
  const std::string temporary = path + ".tmp";
  const UniqueFd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.ok() || fchmod(file.get(), 0600) != 0) {
    return ErrnoError(errno, "create");
  }
  AMPD_RETURN_IF_ERROR(WriteAll(file.get(), secret));
  if (fsync(file.get()) != 0 || rename(temporary.c_str(), path.c_str()) != 0) {
    return ErrnoError(errno, "rename");
  }
  return SyncFolder(std::filesystem::path(path).parent_path().string());
}

// Locks the file against other agents. Returns how long it waited for another process that had the lock; nothing if
// that process kept the lock for longer than the timeout. A shim that is being started has the lock of its agent until
// it executes its own program. So if an agent is killed at that moment, the next agent must wait for the shim.
std::optional<absl::Duration> TakeLock(int fd) {
  const absl::Duration begin = SystemClock().SinceBoot();
  absl::Duration waited = absl::ZeroDuration();
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (waited >= kLockTimeout) {
      return std::nullopt;
    }
    absl::SleepFor(kBetweenLockTries);
    waited = SystemClock().SinceBoot() - begin;
  }
  return waited;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> PrepareFolder(const std::string& folder, const std::string& what, int depth) {
  absl::StatusOr<std::vector<std::string>> lines =
      PreparePrivateFolder({.path = folder, .what = what, .depth = depth, .others_may_enter = false, .readable = {}});
  if (ReasonOf(lines.status()) == "OPEN_TO_OTHERS") {
    return lines;
  }
  if (!lines.ok()) {
    const std::string message(lines.status().message());
    const size_t colon = message.rfind(": ");  // Drops the name of the operation before the colon.
    return Unusable(what, folder, colon == std::string::npos ? message : message.substr(colon + 2));
  }
  std::string probe = folder + "/.probe-XXXXXX";
  const UniqueFd file(mkostemp(probe.data(), O_CLOEXEC));
  if (!file.ok()) {
    return Unusable(what, folder, std::strerror(errno));
  }
  unlink(probe.c_str());
  return lines;
}

std::string PlaceOf(const std::string& host, const std::string& state_folder) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(state_folder, error);
  return Shortened(ValidUtf8(absl::StrCat(host, ":", error ? state_folder : real.string())), kMaxPlaceBytes);
}

absl::StatusOr<StateFolder> StateFolder::Open(const std::string& folder, RandomSource& random) {
  StateFolder state;
  AMPD_ASSIGN_OR_RETURN(state.lines_, PrepareFolder(folder, "the state folder", /*depth=*/2));
  state.lock_ = UniqueFd(open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!state.lock_.ok()) {
    return Unusable("the state folder", folder, std::strerror(errno));
  }
  const std::optional<absl::Duration> waited = TakeLock(state.lock_.get());
  if (!waited.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the state folder ", folder, " is used by another agent; stop it or choose another --state-dir"));
  }
  if (*waited > absl::ZeroDuration()) {
    state.lines_.push_back(absl::StrCat("waited ", absl::FormatDuration(absl::Trunc(*waited, absl::Milliseconds(1))),
                                        " for another process that used the state folder ", folder));
  }
  const std::string path = folder + "/agent-id";
  absl::StatusOr<std::string> id = ReadFile(path, kMaxIdBytes);
  if (absl::IsNotFound(id.status())) {
    id = RandomId(random, kIdCharacters);
    if (const absl::Status written = WriteSecret(path, *id); !written.ok()) {
      return Unusable("the state folder", folder, std::string(written.message()));
    }
  }
  if (!id.ok() || id->empty()) {
    return Unusable("the state folder", folder, "agent-id can't be read; remove that file");
  }
  chmod(path.c_str(), 0600);  // older versions let the group read this file
  state.agent_id_ = *std::move(id);
  return state;
}

}  // namespace ampd::agent
