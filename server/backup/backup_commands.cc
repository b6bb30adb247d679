#include "server/backup/backup_commands.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdio>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/flags/flag_set.h"
#include "base/random.h"
#include "server/backup/backup.h"
#include "server/backup/check.h"
#include "server/backup/restore.h"
#include "server/exit_code.h"
#include "server/server_commands.h"

namespace ampd::server {
namespace {

constexpr int kNiceness = 10;  // Lets a server on the same host run first.

int ExitCodeOfCommand(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason == "CANNOT_WRITE" || reason == "ALREADY_RUNNING" || reason == "DISK_FULL" ? kExitDataLocked
         : reason == "NOT_A_BACKUP" || reason == "NEWER_BACKUP"                           ? kExitData
                                                                                          : ExitCodeOf(status);
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "ampd-server: %s\n", std::string(status.message()).c_str());
  return ExitCodeOfCommand(status);
}

Flag FolderFlag(const std::string& name, const std::string& help, bool is_required) {
  return {.name = name, .type = "FOLDER", .help = help, .is_required = is_required};
}

// Lowers the priority of this command, so that a server on the same host gets the processor first.
void RunNicely() { (void)setpriority(PRIO_PROCESS, 0, kNiceness); }

}  // namespace

int RunBackup(int argc, const char* const* argv) {
  std::string data_dir;
  std::string out;
  FlagSet flags = FlagsOfCommand("backup");
  flags.AddText(FolderFlag("--data-dir", "The server's data directory", /*is_required=*/true), &data_dir);
  flags.AddText(FolderFlag("--out",
                           "Folder to make the backup in: a new one, or an empty one. It holds secrets, as the data "
                           "directory does, and is for its owner only",
                           /*is_required=*/true),
                &out);
  if (const std::optional<int> exit_code = ParseCommand(&flags, argc, argv); exit_code.has_value()) {
    return *exit_code;
  }
  RunNicely();
  umask(0077);
  const absl::StatusOr<BackupSummary> made =
      MakeBackup({.data_dir = data_dir, .out = out, .clock = &SystemClock(), .before_step = nullptr});
  if (!made.ok()) {
    return Fail(made.status());
  }
  std::printf("backed up %s to %s: %lld files, %lld bytes, up to update %llu of the journal\n", data_dir.c_str(),
              out.c_str(), static_cast<long long>(made->num_files), static_cast<long long>(made->num_bytes),
              static_cast<unsigned long long>(made->last_update));
  return kExitOk;
}

int RunRestore(int argc, const char* const* argv) {
  std::string from;
  std::string data_dir;
  FlagSet flags = FlagsOfCommand("restore");
  flags.AddText(FolderFlag("--from", "The backup's folder", /*is_required=*/true), &from);
  flags.AddText(FolderFlag("--data-dir", "The data directory to make: a new folder, or an empty one",
                           /*is_required=*/true),
                &data_dir);
  if (const std::optional<int> exit_code = ParseCommand(&flags, argc, argv); exit_code.has_value()) {
    return *exit_code;
  }
  umask(0077);
  const absl::StatusOr<RestoreSummary> done = RestoreBackup(
      {.from = from, .data_dir = data_dir, .clock = &SystemClock(), .random = &SystemRandom(), .before_step = nullptr});
  if (!done.ok()) {
    return Fail(done.status());
  }
  const std::string time = absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", done->backup_time, absl::UTCTimeZone());
  std::printf(
      "restored the backup of %s to %s: %lld unfinished jobs, of which %lld had an attempt; these continue from their "
      "checkpoints\n"
      "Make sure that the old server has ended, then start ampd-server --data-dir %s with the flags of the old one.\n"
      "Tokens that were revoked since the backup are valid again: see ampctl auth token list\n",
      time.c_str(), data_dir.c_str(), static_cast<long long>(done->num_unfinished_jobs),
      static_cast<long long>(done->num_stopped_attempts), data_dir.c_str());
  return kExitOk;
}

int RunCheck(int argc, const char* const* argv) {
  std::string data_dir;
  std::string backup;
  FlagSet flags = FlagsOfCommand("check");
  flags.AddText(FolderFlag("--data-dir", "The server's data directory", /*is_required=*/false), &data_dir);
  flags.AddText(FolderFlag("--backup", "The folder of a backup", /*is_required=*/false), &backup);
  if (const std::optional<int> exit_code = ParseCommand(&flags, argc, argv); exit_code.has_value()) {
    return *exit_code;
  }
  if (data_dir.empty() == backup.empty()) {
    return UsageErrorOfCommand("check", "check needs --data-dir FOLDER or --backup FOLDER");
  }
  RunNicely();
  umask(0077);
  const CheckReport report = backup.empty() ? CheckDataDirectory(data_dir) : CheckBackup(backup);
  std::fputs(report.ToText().c_str(), stdout);
  return report.ok() ? kExitOk : kExitData;
}

}  // namespace ampd::server
