// Makes the metric store of a backup agree with the journal of the same backup. The metric store was copied a moment
// later than the journal, so it may have data that the journal does not account for.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/telemetry/metric_writer.h"

namespace ampd::server {

absl::StatusOr<std::vector<std::string>> MetricWriter::Jobs() {
  AMPD_ASSIGN_OR_RETURN(SqliteStatement jobs,
                        database_.Prepare("SELECT job FROM jobs UNION SELECT job FROM attempts ORDER BY job"));
  std::vector<std::string> found;
  for (;;) {
    AMPD_ASSIGN_OR_RETURN(const bool has_row, jobs.Step());
    if (!has_row) {
      return found;
    }
    found.emplace_back(jobs.Bytes(0));
  }
}

absl::Status MetricWriter::TrimJob(const std::string& job, const KnownHistory& known) {
  for (std::string_view table : {"attempts", "chunks", "rollbacks", "log_chunks"}) {
    AMPD_ASSIGN_OR_RETURN(SqliteStatement later, database_.Prepare(absl::StrCat("DELETE FROM ", std::string(table),
                                                                                " WHERE job=?1 AND attempt>?2")));
    AMPD_RETURN_IF_ERROR(later.Bind(1, job).Bind(2, known.num_attempts).Run());
  }
  AMPD_ASSIGN_OR_RETURN(SqliteStatement events, database_.Prepare("DELETE FROM events WHERE job=?1 AND"
                                                                  " (source>?2 OR (source=0 AND source_sequence>?3))"));
  return events.Bind(1, job).Bind(2, known.num_attempts).Bind(3, static_cast<int64_t>(known.last_event)).Run();
}

absl::Status MetricWriter::Trim(const std::map<std::string, KnownHistory>& known) {
  AMPD_RETURN_IF_ERROR(Begin());
  const auto trim = [&]() -> absl::Status {
    AMPD_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, Jobs());
    for (const std::string& job : jobs) {
      const auto found = known.find(job);
      AMPD_RETURN_IF_ERROR(found == known.end() ? DeleteJob(job) : TrimJob(job, found->second));
    }
    return Commit();
  };
  absl::Status trimmed = trim();
  if (!trimmed.ok()) {
    Rollback();
  }
  return trimmed;
}

}  // namespace ampd::server
