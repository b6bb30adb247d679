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

// A finished job on its way to the history table. `record` is a serialized internal.JobRecord.
struct ArchivedJob {
  std::string id;
  int64_t submit_order = 0;
  int64_t end_unix_micros = 0;
  std::string record;
};

// Where a finished job stands among all of them, by end.
struct EndPosition {
  int64_t end_unix_micros = std::numeric_limits<int64_t>::min();
  int64_t submit_order = 0;
  friend auto operator<=>(const EndPosition&, const EndPosition&) = default;
};

// What one group commit writes, all of it or nothing.
struct JournalGroup {
  uint64_t first_index = 0;           // of updates[0]; the next ones follow
  std::vector<std::string> updates;   // serialized internal.Update
  std::vector<ArchivedJob> archived;  // in order; takes the place of the job's earlier record, if there is one
  std::vector<std::string> deleted;   // ids to take out of the history table, if they are in it
};

// Where the state's updates are kept. One writer: the ledger's committer, which makes every call that changes it. The
// history table may be read from any thread at any time.
//
// Promises, tested by one conformance suite for all kinds: what Append returned OK for is there after any crash; of a
// group whose Append did not return there is all or nothing; Recover gives snapshot and updates without a gap.
class Journal {
 public:
  struct Recovered {
    std::string snapshot;  // serialized internal.Snapshot; empty when there is none
    uint64_t snapshot_index = 0;
    std::vector<std::string> updates;  // those after the snapshot, in order
  };

  virtual ~Journal() = default;

  // Everything written so far. DATA_LOSS when it has a gap.
  virtual absl::StatusOr<Recovered> Recover() = 0;

  // Returns after the group is on disk. After an error what is on disk is not known: the process must end.
  // REQUIRES: group.first_index follows the last index appended or recovered.
  virtual absl::Status Append(const JournalGroup& group) = 0;

  // Keeps the snapshot, which holds all updates up to `index`, and drops those updates.
  virtual absl::Status Compact(uint64_t index, const std::string& snapshot) = 0;

  // The history table. Records as they were archived.
  virtual absl::StatusOr<std::optional<std::string>> FindArchived(const std::string& id) = 0;
  // How many records it has.
  virtual absl::StatusOr<int64_t> CountArchived() = 0;
  // Newest first, those with submit_order below `before`: `limit` of them, or fewer where those are beyond some
  // megabytes; none at the end only.
  virtual absl::StatusOr<std::vector<std::string>> ListArchived(int64_t before, int limit) = 0;
  // By end, oldest first: those that ended before the given time and stand behind `after`; as many as ListArchived.
  virtual absl::StatusOr<std::vector<std::string>> ListEnded(EndPosition after, int64_t before_unix_micros,
                                                             int limit) = 0;

  // Whether there is room for new jobs. False long before the disk is full, so that cancels and ends can still be kept.
  virtual bool HasRoomForSubmits() = 0;
};

}  // namespace ampd::server
