#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/ledger/journal.h"

namespace ampd::server {

// A journal in memory, for tests and simulation. Its content is in a Disk, which outlives the journal in the way that a
// file outlives a process. To simulate a crash of the server, destroy the journal object and open the same Disk again.
class MemoryJournal final : public Journal {
 public:
  struct Disk {
    absl::Mutex mutex;
    std::string snapshot ABSL_GUARDED_BY(mutex);
    uint64_t snapshot_index ABSL_GUARDED_BY(mutex) = 0;
    std::map<uint64_t, std::string> updates ABSL_GUARDED_BY(mutex);
    std::map<int64_t, ArchivedJob> finished ABSL_GUARDED_BY(mutex);  // Key: the submit order.
    std::atomic<bool> has_room = true;
  };

  explicit MemoryJournal(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) {}

  absl::StatusOr<Recovered> Recover() override;
  absl::Status Append(const JournalGroup& group) override;
  absl::Status Compact(uint64_t index, const std::string& snapshot) override;
  absl::StatusOr<std::optional<std::string>> FindArchived(const std::string& id) override;
  absl::StatusOr<std::vector<std::string>> FindArchivedNamed(const std::string& name, int limit) override;
  absl::StatusOr<std::vector<std::string>> FindArchivedWithPrefix(const std::string& prefix, int limit) override;
  absl::StatusOr<int64_t> CountArchived() override;
  absl::StatusOr<std::vector<std::string>> ListArchived(int64_t before, int limit) override;
  absl::StatusOr<std::vector<std::string>> ListEnded(EndPosition after, int64_t before_unix_micros, int limit) override;
  bool HasRoomForSubmits() override { return disk_->has_room; }

 private:
  const std::shared_ptr<Disk> disk_;
};

}  // namespace ampd::server
