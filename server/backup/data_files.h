#pragma once

#include <string>
#include <vector>

// The files of a server's data directory that a backup includes. A backup leaves out the lock, the file that reserves
// disk space, sockets and unfinished uploads.
namespace ampd::server {

inline constexpr char kJournalFile[] = "journal.db";
inline constexpr char kMetricsFile[] = "metrics.db";
inline constexpr char kArtifactIndexFile[] = "artifacts.db";
inline constexpr char kTokensFile[] = "tokens.db";
inline constexpr char kArtifactFolder[] = "artifacts";
inline constexpr char kTlsFolder[] = "tls";
inline constexpr char kAuditFile[] = "audit.log";
inline constexpr char kAdminTokenFile[] = "admin.token";

// Returns the names of the regular files in a folder, sorted. The list is empty if the folder does not exist.
std::vector<std::string> FilesIn(const std::string& folder);

// Returns the existing files of the audit log, the newest first.
std::vector<std::string> AuditFiles(const std::string& data_dir);

}  // namespace ampd::server
