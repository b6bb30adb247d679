#include "worker/agent/trainers/spawn_folder.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/io/file.h"
#include "base/io/private_folder.h"
#include "base/ipc/process.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "worker/shim/attempt_log.h"
#include "worker/shim/oom_kills.h"

namespace ampd::agent {
namespace {

constexpr int64_t kMaxRecordBytes = 1 << 20;

std::string SpawnRoot(const std::string& state_folder) { return absl::StrCat(state_folder, "/spawn"); }

}  // namespace

absl::StatusOr<SpawnFolder> SpawnFolder::Create(const std::string& state_folder, const internal::SpawnRecord& record) {
  SpawnFolder folder(absl::StrCat(SpawnRoot(state_folder), "/", record.spawn_id()));
  if (const absl::Status made = MakePrivateFolders(folder.path_); !made.ok()) {
    return absl::Status(made.code(), absl::StrCat("make a spawn folder: ", std::string(made.message())));
  }
  if (absl::Status written = folder.Write(record); !written.ok()) {
    folder.Remove();
    return written;
  }
  return folder;
}

std::vector<SpawnFolder> SpawnFolder::List(const std::string& state_folder) {
  std::vector<SpawnFolder> folders;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(SpawnRoot(state_folder), error)) {
    SpawnFolder folder(entry.path().string());
    if (folder.Read() && folder.ShimMayHaveBegun()) {
      folders.push_back(std::move(folder));
    } else {
      folder.Remove();
    }
  }
  return folders;
}

bool SpawnFolder::Read() {
  const absl::StatusOr<std::string> bytes = ReadFile(path_ + "/record", kMaxRecordBytes);
  return bytes.ok() && record_.ParseFromString(*bytes);
}

// Whether the shim may have started. To start it, the agent spawns a process. This process creates the shim's log, and
// then executes the shim's program. Until then it holds the lock of the agent's state folder, which the caller holds
// now. So if there is no log, no shim has started, and none will start. One exception: a crash of the machine may lose
// the log, which is not synced, but then the boot id has changed.
bool SpawnFolder::ShimMayHaveBegun() const {
  const absl::StatusOr<std::string> boot = BootId();
  std::error_code error;
  const bool has_no_log = std::filesystem::status(shim_log(), error).type() == std::filesystem::file_type::not_found;
  return record_.shim_pid() > 0 || !has_no_log || !boot.ok() || *boot != record_.boot_id();
}

absl::Status SpawnFolder::Write(const internal::SpawnRecord& record) {
  AMPD_RETURN_IF_ERROR(WriteFileAtomically(path_ + "/record", record.SerializeAsString()));
  record_ = record;
  return absl::OkStatus();
}

std::optional<internal::ShimStatus> SpawnFolder::ReadExit() const {
  const absl::StatusOr<std::string> bytes = ReadFile(path_ + "/exit", kMaxRecordBytes);
  internal::ShimStatus status;
  if (!bytes.ok() || !status.ParseFromString(*bytes) || !status.exited()) {
    return std::nullopt;
  }
  return status;
}

bool SpawnFolder::OomIsAGuess() const {
  std::error_code error;
  return std::filesystem::exists(absl::StrCat(path_, "/", shim::kOomGuessFile), error);
}

std::string SpawnFolder::LastLogLine() const {
  constexpr int64_t kPartBytes = 64 << 10;
  constexpr size_t kMaxLineBytes = 500;
  std::string end;
  int64_t offset = 0;
  while (true) {
    const absl::StatusOr<shim::LogPart> part = shim::ReadAttemptLog(path_, offset, kPartBytes);
    if (!part.ok() || part->content.empty()) {
      break;
    }
    offset = part->offset_bytes + static_cast<int64_t>(part->content.size());
    end += part->content;
    end.erase(0, end.size() - std::min(end.size(), size_t{kPartBytes}));
  }
  end.erase(end.find_last_not_of(" \t\r\n") + 1);
  return Shortened(OneLine(std::string_view(end).substr(end.rfind('\n') + 1)), kMaxLineBytes);
}

void SpawnFolder::Remove() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace ampd::agent
