#include "server/ledger/memory_journal.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"

namespace ampd::server {

absl::StatusOr<Journal::Recovered> MemoryJournal::Recover() {
  absl::MutexLock lock(&disk_->mutex);
  Recovered recovered;
  recovered.snapshot = disk_->snapshot;
  recovered.snapshot_index = disk_->snapshot_index;
  uint64_t next = disk_->snapshot_index + 1;
  for (const auto& [index, bytes] : disk_->updates) {
    if (index != next++) {
      return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", "the journal has a gap");
    }
    recovered.updates.push_back(bytes);
  }
  return recovered;
}

absl::Status MemoryJournal::Append(const JournalGroup& group) {
  absl::MutexLock lock(&disk_->mutex);
  uint64_t index = group.first_index;
  for (const std::string& update : group.updates) {
    disk_->updates[index++] = update;
  }
  for (const ArchivedJob& job : group.archived) {
    disk_->finished[job.submit_order] = job;
  }
  for (const std::string& id : group.deleted) {
    std::erase_if(disk_->finished, [&](const auto& entry) { return entry.second.id == id; });
  }
  return absl::OkStatus();
}

absl::Status MemoryJournal::Compact(uint64_t index, const std::string& snapshot) {
  absl::MutexLock lock(&disk_->mutex);
  disk_->snapshot = snapshot;
  disk_->snapshot_index = index;
  disk_->updates.erase(disk_->updates.begin(), disk_->updates.upper_bound(index));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> MemoryJournal::FindArchived(const std::string& id) {
  absl::MutexLock lock(&disk_->mutex);
  for (const auto& [order, job] : disk_->finished) {
    if (job.id == id) {
      return job.record;
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<std::string>> MemoryJournal::ListArchived(int64_t before, int limit) {
  absl::MutexLock lock(&disk_->mutex);
  std::vector<std::string> records;
  auto job = disk_->finished.lower_bound(before);
  while (job != disk_->finished.begin() && static_cast<int>(records.size()) < limit) {
    records.push_back((--job)->second.record);
  }
  return records;
}

absl::StatusOr<std::vector<std::string>> MemoryJournal::FindArchivedNamed(const std::string& name, int limit) {
  absl::MutexLock lock(&disk_->mutex);
  std::vector<std::string> records;
  for (auto job = disk_->finished.rbegin(); job != disk_->finished.rend(); ++job) {
    if (job->second.name == name && static_cast<int>(records.size()) < limit) {
      records.push_back(job->second.record);
    }
  }
  return records;
}

absl::StatusOr<std::vector<std::string>> MemoryJournal::FindArchivedWithPrefix(const std::string& prefix, int limit) {
  absl::MutexLock lock(&disk_->mutex);
  std::map<std::string, std::string> by_id;
  for (const auto& [order, job] : disk_->finished) {
    if (job.id.starts_with(prefix)) {
      by_id[job.id] = job.record;
    }
  }
  std::vector<std::string> records;
  for (const auto& [id, record] : by_id) {
    if (static_cast<int>(records.size()) < limit) {
      records.push_back(record);
    }
  }
  return records;
}

absl::StatusOr<int64_t> MemoryJournal::CountArchived() {
  absl::MutexLock lock(&disk_->mutex);
  return static_cast<int64_t>(disk_->finished.size());
}

absl::StatusOr<std::vector<std::string>> MemoryJournal::ListEnded(EndPosition after, int64_t before_unix_micros,
                                                                  int limit) {
  absl::MutexLock lock(&disk_->mutex);
  std::map<EndPosition, const ArchivedJob*> ended;
  for (const auto& [order, job] : disk_->finished) {
    const EndPosition position = {job.end_unix_micros, order};
    if (position > after && job.end_unix_micros < before_unix_micros) {
      ended.emplace(position, &job);
    }
  }
  std::vector<std::string> records;
  for (const auto& [position, job] : ended) {
    if (static_cast<int>(records.size()) == limit) {
      break;
    }
    records.push_back(job->record);
  }
  return records;
}

}  // namespace ampd::server
