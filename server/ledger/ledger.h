#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/ledger/journal.h"
#include "server/state/cluster_state.h"

namespace ampd::server {

// The updates of one group in commit order. They became durable and visible together.
struct Publication {
  std::vector<Applied> applied;
};

// Applies everything that was recovered to `state`, which must be new, and returns the index of the last update. Stores
// the events of each update in `effects`, which may be null. DATA_LOSS if an update can't be replayed.
// FAILED_PRECONDITION (reason NEWER_SCHEMA) if a server that is more than one minor version newer wrote to the journal,
// or if only newer servers know the kind of an update.
absl::StatusOr<uint64_t> Replay(const Journal::Recovered& recovered, ClusterState* state, Publication* effects);

// The only component that changes the state. The ledger commits updates in groups. The committer takes all queued
// updates, applies them in turn to its own head state (so that each update sees the effects of the earlier ones),
// appends the group to the journal in one transaction, and syncs. Only then does it publish the changed records and
// answer all callers, including those whose update was refused or repeated. During the sync, new updates queue up for
// the next group. No reader ever sees a state whose record is not on disk.
//
// If an append fails, it is unknown what is on disk, so the process ends at once. A new process reads the journal.
//
// The queue is bounded; if it is full, a commit is refused with RESOURCE_EXHAUSTED. Thread-safe.
class Ledger {
 public:
  using CommitDone = std::function<void(const absl::StatusOr<Applied>&)>;
  using Listener = std::function<void(const Publication&)>;
  struct Options {
    std::unique_ptr<Journal> journal;
    int snapshot_every = 50'000;  // Updates between snapshots.
    size_t max_group = 1024;
    size_t max_queue = 65'536;
    // Returns whether all published events are durable in the event store. The ledger calls it before it drops updates,
    // because lost events can be produced again only from the updates. If it returns false, the ledger keeps the
    // updates. May be null.
    std::function<bool()> flush_events;
  };

  // Reads the journal. Errors: those of Journal::Recover and Replay.
  static absl::StatusOr<std::unique_ptr<Ledger>> Open(Options options);
  // Commits the queued updates, then ends the committer's thread.
  ~Ledger();

  // Sets the listener. The ledger calls it for each group when the group is on disk and visible to Read, before it
  // answers the callers. The first call, made by Start, has the events of all replayed updates, which an earlier
  // process may have published too. REQUIRES: not started.
  void SetListener(Listener listener) { listener_ = std::move(listener); }

  // Starts the committer's thread. Simulations do not call it, and call CommitGroup instead.
  void Start();
  // Passes the effects of the replayed updates to the listener. Start calls it.
  void PublishReplayed();

  // Queues the update. `done` is called exactly once: on the committer's thread, or on the caller's thread if the queue
  // is full or closed.
  void Commit(internal::Update update, CommitDone done);
  // Commits the update and waits for its result. If the ledger was not started, this call commits all queued updates.
  // REQUIRES: not called on the committer's thread.
  absl::StatusOr<Applied> CommitAndWait(internal::Update update);
  // Commits one group of queued updates. Returns false if the queue is empty. REQUIRES: not started.
  bool CommitGroup();

  // Runs `read` on the durable state and returns its result. `read` must be quick, and must not wait for a commit.
  template <typename Function>
  auto Read(Function&& read) const {
    absl::ReaderMutexLock lock(&published_mutex_);
    return read(static_cast<const ClusterState&>(published_));
  }

  Journal& history() const { return *options_.journal; }
  bool HasRoomForSubmits() const { return options_.journal->HasRoomForSubmits(); }

  // Counters that /metrics shows.
  struct Counters {
    int64_t num_groups = 0;
    int64_t num_updates = 0;
    size_t queue_length = 0;
  };
  Counters counters() const;

 private:
  struct Waiting {
    internal::Update update;
    CommitDone done;
  };
  struct Group;

  explicit Ledger(Options options) : options_(std::move(options)) {}
  absl::Status Recover();
  void CommitLoop();
  std::vector<Waiting> TakeGroup() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex_);
  void ApplyOne(Waiting waiting, Group& group);
  // If a client's update names a job that is in the history table, adds the job's record to the update. If an earlier
  // update of the group changed the record, adds the changed one.
  absl::Status AttachArchivedRecord(const Group& group, internal::Update* update) const;
  absl::StatusOr<std::optional<internal::JobRecord>> FindArchived(const Group& group, const std::string& id) const;
  void CommitOneGroup(std::vector<Waiting> waiting);
  void CompactIfDue();
  bool HasWorkOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex_) { return closed_ || !queue_.empty(); }

  Options options_;
  Listener listener_;

  ClusterState head_;        // Used by the committer only.
  uint64_t last_index_ = 0;  // Used by the committer only.
  uint64_t snapshot_index_ = 0;
  uint64_t next_compaction_ = 0;  // No compaction is tried before this index.
  // Whether another version of ampd was the last to write the journal. If so, the next commit compacts the journal, so
  // that no version ever replays updates from more than two versions.
  bool is_of_other_version_ = false;
  Publication replayed_;

  mutable absl::Mutex published_mutex_;
  ClusterState published_ ABSL_GUARDED_BY(published_mutex_);

  mutable absl::Mutex queue_mutex_;
  std::deque<Waiting> queue_ ABSL_GUARDED_BY(queue_mutex_);
  bool closed_ ABSL_GUARDED_BY(queue_mutex_) = false;
  Counters counters_ ABSL_GUARDED_BY(queue_mutex_);

  std::thread committer_;
};

}  // namespace ampd::server
