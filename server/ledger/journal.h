#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ampd::server {

// A finished job to be added to the history table. `record` is a serialized internal.JobRecord.
struct ArchivedJob {
  std::string id;
  std::string name;
  int64_t submit_order = 0;
  int64_t end_unix_micros = 0;
  std::string record;
};

// The position of a finished job in the list of finished jobs, which is ordered by the time of their end.
struct EndPosition {
  int64_t end_unix_micros = std::numeric_limits<int64_t>::min();
  int64_t submit_order = 0;
  friend auto operator<=>(const EndPosition&, const EndPosition&) = default;
};

// The content of one group commit, which is written atomically.
struct JournalGroup {
  uint64_t first_index = 0;           // Index of updates[0]; the next updates have the next indexes.
  std::vector<std::string> updates;   // Serialized internal.Update.
  std::vector<ArchivedJob> archived;  // Added in this order; each replaces an earlier record of its job.
  std::vector<std::string> deleted;   // Ids to remove from the history table, if present.
};

// Stores the updates of the state. There is one writer: only the ledger's committer calls functions that change the
// journal. The history table may be read from any thread at any time.
//
// One conformance suite tests these guarantees for all implementations. If Append returned OK for a group, the group
// survives any crash. If Append did not return, the group is stored completely or not at all. Recover returns the
// snapshot and all updates after it, without a gap.
class Journal {
 public:
  struct Recovered {
    std::string snapshot;  // Serialized internal.Snapshot; empty when there is none.
    uint64_t snapshot_index = 0;
    std::vector<std::string> updates;  // Updates after the snapshot, in order.
  };

  virtual ~Journal() = default;

  // Returns everything written so far. DATA_LOSS if an update is missing in between.
  virtual absl::StatusOr<Recovered> Recover() = 0;

  // Returns when the group is on disk. After an error it is unknown what is on disk, and the process must end.
  // REQUIRES: group.first_index follows the last index appended or recovered.
  virtual absl::Status Append(const JournalGroup& group) = 0;

  // Stores the snapshot, which includes all updates up to `index`, and deletes those updates.
  virtual absl::Status Compact(uint64_t index, const std::string& snapshot) = 0;

  // Returns the record of this job from the history table; nullopt if there is none.
  virtual absl::StatusOr<std::optional<std::string>> FindArchived(const std::string& id) = 0;
  // The next two functions return records from the history table. The first returns the newest `limit` records of jobs
  // with this name. The second returns the first `limit` records, in the order of ids, of jobs whose id begins with
  // this prefix. The size limit of ListArchived applies too.
  virtual absl::StatusOr<std::vector<std::string>> FindArchivedNamed(const std::string& name, int limit) = 0;
  virtual absl::StatusOr<std::vector<std::string>> FindArchivedWithPrefix(const std::string& prefix, int limit) = 0;
  // Returns the number of records in the history table.
  virtual absl::StatusOr<int64_t> CountArchived() = 0;
  // Lists records with a submit_order below `before`, newest first. Returns at most `limit` records, and fewer if
  // together they exceed some megabytes. The list is empty only if no such record is left.
  virtual absl::StatusOr<std::vector<std::string>> ListArchived(int64_t before, int limit) = 0;
  // Lists records of jobs that ended before the given time and come after the position `after`, in the order in which
  // the jobs ended. The size limit of ListArchived applies too.
  virtual absl::StatusOr<std::vector<std::string>> ListEnded(EndPosition after, int64_t before_unix_micros,
                                                             int limit) = 0;

  // Whether there is disk space for new jobs. Returns false long before the disk is full, because there must still be
  // space to store cancels and ends of jobs.
  virtual bool HasRoomForSubmits() = 0;
};

}  // namespace ampd::server
