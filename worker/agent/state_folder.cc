#include "worker/agent/state_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace ampd::agent {
namespace {

constexpr int kIdCharacters = 26;  // 130 random bits
constexpr int kMaxIdBytes = 64;

absl::Status Unusable(const std::string& what, const std::string& folder, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("can't write ", what, " ", folder, ": ", why));
}

}  // namespace

absl::Status TryFolder(const std::string& folder, const std::string& what) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Unusable(what, folder, error.message());
  }
  std::string probe = folder + "/.probe-XXXXXX";
  const UniqueFd file(mkostemp(probe.data(), O_CLOEXEC));
  if (!file.ok()) {
    return Unusable(what, folder, std::strerror(errno));
  }
  unlink(probe.c_str());
  return absl::OkStatus();
}

absl::StatusOr<StateFolder> StateFolder::Open(const std::string& folder, RandomSource& random) {
  AMPD_RETURN_IF_ERROR(TryFolder(folder, "the state folder"));
  StateFolder state;
  state.lock_ = UniqueFd(open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!state.lock_.ok()) {
    return Unusable("the state folder", folder, std::strerror(errno));
  }
  if (flock(state.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the state folder ", folder, " is used by another agent; stop it or choose another --state-dir"));
  }
  const std::string path = folder + "/agent-id";
  absl::StatusOr<std::string> id = ReadFile(path, kMaxIdBytes);
  if (absl::IsNotFound(id.status())) {
    id = RandomId(random, kIdCharacters);
    if (const absl::Status written = WriteFileAtomically(path, *id); !written.ok()) {
      return Unusable("the state folder", folder, std::string(written.message()));
    }
  }
  if (!id.ok() || id->empty()) {
    return Unusable("the state folder", folder, "agent-id can't be read; remove that file");
  }
  state.agent_id_ = *std::move(id);
  return state;
}

}  // namespace ampd::agent
