#include "server/ledger/ledger.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/api/tenants.h"
#include "base/error.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "google/protobuf/util/time_util.h"

namespace ampd::server {
namespace {

using google::protobuf::util::TimeUtil;

absl::Status CannotReplay(uint64_t index, std::string_view why) {
  return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
               absl::StrCat("update ", index, " of the journal can't be replayed: ", std::string(why)));
}

// Returns the error for a journal that only newer servers can read. `what` says why.
absl::Status NeedsNewerServer(std::string_view what, std::string_view version) {
  return Error(absl::StatusCode::kFailedPrecondition, "NEWER_SCHEMA",
               absl::StrCat("the journal ", std::string(what), ", and this is ampd ", Version(), "; start ",
                            version.empty() ? "the version that wrote it" : absl::StrCat("ampd ", std::string(version)),
                            ", or restore a backup that this version made"));
}

absl::Status CheckWriter(const std::string& version) {
  return IsTooNew(version, Version())
             ? NeedsNewerServer(absl::StrCat("was written by ampd ", version, ", more than one minor version newer"),
                                version)
             : absl::OkStatus();
}

ArchivedJob ToArchive(const internal::JobRecord& record) {
  const v1::Job& job = record.job();
  return {job.id(), job.spec().name(), job.submit_order(), TimeUtil::TimestampToMicroseconds(job.end_time()),
          record.SerializeAsString()};
}

[[noreturn]] void Die(const absl::Status& status) {
  // After a failed write it is unknown what is on disk, so the process must end. The next process reads what is there.
  Log(spdlog::level::critical, absl::StrCat("the journal can't be written: ", std::string(status.message())));
  std::abort();
}

// Returns the id of the job that a client's update names and that may be in the history table. Empty if the update
// names no such job.
std::string JobNamedBy(const internal::Update& update, const ClusterState& state) {
  switch (update.kind_case()) {
    case internal::Update::kCreateJob: {
      const internal::CreateJob& create = update.create_job();
      const auto* const earlier = state.FindRequest(TenantOrDefault(create.tenant()), create.request_id());
      return earlier == nullptr ? "" : earlier->job();
    }
    case internal::Update::kSetDesired:
      return update.set_desired().job();
    case internal::Update::kChangeJob:
      return update.change_job().job();
    case internal::Update::kDeleteJob:
      return update.delete_job().job();
    case internal::Update::kDropCheckpoint:
      return update.drop_checkpoint().job();
    case internal::Update::kTrimJob:
      return update.trim_job().job();
    default:
      return "";
  }
}

}  // namespace

absl::StatusOr<uint64_t> Replay(const Journal::Recovered& recovered, ClusterState* state, Publication* effects) {
  if (!recovered.snapshot.empty()) {
    internal::Snapshot snapshot;
    if (!snapshot.ParseFromString(recovered.snapshot) || snapshot.index() != recovered.snapshot_index) {
      return CannotReplay(recovered.snapshot_index, "the snapshot is damaged");
    }
    AMPD_RETURN_IF_ERROR(CheckWriter(snapshot.newest_server_version()));
    *state = ClusterState::FromSnapshot(snapshot);
  }
  uint64_t last_index = recovered.snapshot_index;
  for (const std::string& bytes : recovered.updates) {
    internal::Update update;
    if (!update.ParseFromString(bytes)) {
      return CannotReplay(last_index + 1, "it is damaged");
    }
    if (update.kind_case() == internal::Update::KIND_NOT_SET) {
      return NeedsNewerServer(
          absl::StrCat("has an update (", last_index + 1, ") of a kind that only newer versions know"),
          state->server_version());
    }
    AMPD_RETURN_IF_ERROR(CheckWriter(update.start_life().server_version()));
    absl::StatusOr<Applied> applied = state->Apply(update);
    if (!applied.ok()) {
      return CannotReplay(last_index + 1, std::string(applied.status().message()));
    }
    ++last_index;
    if (effects != nullptr) {
      effects->applied.emplace_back().events = std::move(applied->events);
    }
  }
  return last_index;
}

// Updates that are committed in one transaction, and the answers to their callers.
struct Ledger::Group {
  JournalGroup journal;
  std::vector<std::pair<CommitDone, absl::StatusOr<Applied>>> answers;
  Publication publication;
};

absl::StatusOr<std::unique_ptr<Ledger>> Ledger::Open(Options options) {
  std::unique_ptr<Ledger> ledger(new Ledger(std::move(options)));
  AMPD_RETURN_IF_ERROR(ledger->Recover());
  return ledger;
}

Ledger::~Ledger() {
  {
    absl::MutexLock lock(&queue_mutex_);
    closed_ = true;
  }
  if (committer_.joinable()) {
    committer_.join();
  }
}

absl::Status Ledger::Recover() {
  AMPD_ASSIGN_OR_RETURN(const Journal::Recovered recovered, options_.journal->Recover());
  AMPD_ASSIGN_OR_RETURN(last_index_, Replay(recovered, &head_, &replayed_));
  snapshot_index_ = recovered.snapshot_index;
  is_of_other_version_ = head_.life() > 0 && head_.server_version() != Version();
  if (const std::string& newest = head_.newest_server_version(); ParseVersion(newest) > ParseVersion(Version())) {
    Log(spdlog::level::warn,
        absl::StrCat("ampd ", newest, ", which is newer than this ampd ", Version(),
                     ", has written the journal; what only that version knows has no effect until it runs again"));
  }
  absl::MutexLock lock(&published_mutex_);
  published_ = head_;
  return absl::OkStatus();
}

void Ledger::PublishReplayed() {
  if (listener_ && !replayed_.applied.empty()) {
    listener_(replayed_);
  }
  replayed_ = Publication();
}

void Ledger::Start() {
  PublishReplayed();
  committer_ = std::thread([this] { CommitLoop(); });
}

void Ledger::Commit(internal::Update update, CommitDone done) {
  {
    absl::MutexLock lock(&queue_mutex_);
    if (!closed_ && queue_.size() < options_.max_queue) {
      queue_.push_back({std::move(update), std::move(done)});
      return;
    }
  }
  done(WithRetryDelay(
      Error(absl::StatusCode::kResourceExhausted, "LEDGER_BUSY", "too many changes wait to be written; try again"),
      absl::Seconds(1)));
}

absl::StatusOr<Applied> Ledger::CommitAndWait(internal::Update update) {
  absl::StatusOr<Applied> result;
  absl::Notification finished;
  Commit(std::move(update), [&](const absl::StatusOr<Applied>& applied) {
    result = applied;
    finished.Notify();
  });
  if (!committer_.joinable()) {
    while (CommitGroup()) {
    }
  }
  finished.WaitForNotification();
  return result;
}

std::vector<Ledger::Waiting> Ledger::TakeGroup() {
  std::vector<Waiting> group;
  while (!queue_.empty() && group.size() < options_.max_group) {
    group.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return group;
}

void Ledger::CommitLoop() {
  for (;;) {
    std::vector<Waiting> group;
    {
      absl::MutexLock lock(&queue_mutex_);
      queue_mutex_.Await(absl::Condition(this, &Ledger::HasWorkOrClosed));
      group = TakeGroup();
    }
    if (group.empty()) {
      return;
    }
    CommitOneGroup(std::move(group));
  }
}

bool Ledger::CommitGroup() {
  std::vector<Waiting> group;
  {
    absl::MutexLock lock(&queue_mutex_);
    group = TakeGroup();
  }
  if (group.empty()) {
    return false;
  }
  CommitOneGroup(std::move(group));
  return true;
}

absl::StatusOr<std::optional<internal::JobRecord>> Ledger::FindArchived(const Group& group,
                                                                        const std::string& id) const {
  const std::vector<ArchivedJob>& archived = group.journal.archived;
  const std::vector<std::string>& deleted = group.journal.deleted;
  if (head_.FindJob(id) != nullptr || std::find(deleted.begin(), deleted.end(), id) != deleted.end()) {
    return std::nullopt;
  }
  std::optional<std::string> bytes;
  const auto newest =
      std::find_if(archived.rbegin(), archived.rend(), [&](const ArchivedJob& job) { return job.id == id; });
  if (newest != archived.rend()) {
    bytes = newest->record;
  } else {
    AMPD_ASSIGN_OR_RETURN(bytes, options_.journal->FindArchived(id));
  }
  if (!bytes.has_value()) {
    return std::nullopt;
  }
  internal::JobRecord record;
  if (!record.ParseFromString(*bytes)) {
    return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", "a record of the history table is damaged");
  }
  return record;
}

absl::Status Ledger::AttachArchivedRecord(const Group& group, internal::Update* update) const {
  const std::string id = JobNamedBy(*update, head_);
  if (id.empty()) {
    return absl::OkStatus();
  }
  AMPD_ASSIGN_OR_RETURN(auto record, FindArchived(group, id));
  if (record.has_value()) {
    *update->mutable_archived_job() = *std::move(record);
  }
  return absl::OkStatus();
}

void Ledger::ApplyOne(Waiting waiting, Group& group) {
  const absl::Status attached = AttachArchivedRecord(group, &waiting.update);
  absl::StatusOr<Applied> applied = attached.ok() ? head_.Apply(waiting.update) : attached;
  if (applied.ok() && applied->changed) {
    group.journal.updates.push_back(waiting.update.SerializeAsString());
    for (const JobRecordPtr& record : applied->archived) {
      group.journal.archived.push_back(ToArchive(*record));
    }
    for (const DeletedJob& job : applied->deleted_jobs) {
      group.journal.deleted.push_back(job.id);
    }
    group.publication.applied.push_back(*applied);
  }
  group.answers.emplace_back(std::move(waiting.done), std::move(applied));
}

void Ledger::CommitOneGroup(std::vector<Waiting> waiting) {
  Group group;
  group.journal.first_index = last_index_ + 1;
  for (Waiting& one : waiting) {
    ApplyOne(std::move(one), group);
  }
  if (!group.journal.updates.empty()) {
    if (const absl::Status status = options_.journal->Append(group.journal); !status.ok()) {
      Die(status);
    }
    last_index_ += group.journal.updates.size();
    absl::MutexLock lock(&published_mutex_);
    for (const Applied& applied : group.publication.applied) {
      published_.Adopt(applied);
    }
  }
  {
    absl::MutexLock lock(&queue_mutex_);
    counters_.num_groups += group.journal.updates.empty() ? 0 : 1;
    counters_.num_updates += static_cast<int64_t>(group.journal.updates.size());
  }
  if (listener_ && !group.publication.applied.empty()) {
    listener_(group.publication);
  }
  for (auto& [done, applied] : group.answers) {
    done(applied);
  }
  CompactIfDue();
}

void Ledger::CompactIfDue() {
  const uint64_t interval = static_cast<uint64_t>(options_.snapshot_every);
  if ((last_index_ - snapshot_index_ < interval && !is_of_other_version_) || last_index_ < next_compaction_) {
    return;
  }
  // The next compaction is not tried immediately, even if this one fails, because each try reads the whole state or
  // waits for the event store.
  next_compaction_ = last_index_ + std::max<uint64_t>(1, interval / 16);
  // The journal is compacted only if all events are durable. Lost events can be produced again from the updates, but
  // not from a snapshot.
  if (options_.flush_events && !options_.flush_events()) {
    return;
  }
  const absl::Status status = options_.journal->Compact(last_index_, head_.ToSnapshot(last_index_).SerializeAsString());
  if (absl::IsResourceExhausted(status)) {
    return;  // Nothing is lost: the updates are still in the journal.
  }
  if (!status.ok()) {
    Die(status);
  }
  snapshot_index_ = last_index_;
  is_of_other_version_ = false;
}

Ledger::Counters Ledger::counters() const {
  absl::MutexLock lock(&queue_mutex_);
  Counters counters = counters_;
  counters.queue_length = queue_.size();
  return counters;
}

}  // namespace ampd::server
