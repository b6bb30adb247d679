#include "server/telemetry/watch_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "points/telemetry_batch.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

constexpr int kPagePoints = 1024;
constexpr int kPageEvents = 256;

// Returns the number in the job's etag, which is in quotes and grows with every change.
uint64_t VersionOf(const v1::Job& job) {
  uint64_t version = 0;
  std::string digits = job.etag();
  std::erase(digits, '"');
  return absl::SimpleAtoi(digits, &version) ? version : 0;
}

}  // namespace

WatchSession::Step WatchSession::Next() {
  switch (phase_) {
    case Phase::START:
      return Begin();
    case Phase::CATCHING_UP:
    case Phase::LAST_CATCH_UP:
      return NextOfHistory();
    case Phase::LIVE:
      return NextLive();
    case Phase::FINISHED:
      break;
  }
  return End(absl::OkStatus());
}

WatchSession::Step WatchSession::Begin() {
  // The hub needs memory for each job that is watched, so the session subscribes only to a job that the caller may see.
  if (absl::StatusOr<v1::Job> seen = options_.get_job(); !seen.ok()) {
    return End(seen.status());
  }
  // Subscribes before it reads the job and the store, so no change and no item is missed. An item that is stored in
  // between arrives twice, and the cursor filters out the second copy.
  subscription_ = options_.hub->Subscribe(options_.job, options_.on_ready);
  absl::StatusOr<v1::Job> job = options_.get_job();
  if (!job.ok()) {
    return End(job.status());
  }
  last_message_ = options_.clock->SinceBoot();
  if (options_.resume_from.has_value()) {
    cursor_ = *options_.resume_from;
    if (absl::Status known = CheckToken(cursor_); !known.ok()) {
      return End(known);
    }
  } else if (!options_.from_start) {
    absl::Status found = options_.store->Read([&](MetricReader& reader) -> absl::Status {
      AMPD_ASSIGN_OR_RETURN(cursor_.event, reader.LastEventPosition(options_.job));
      AMPD_ASSIGN_OR_RETURN(AttemptExtent extent, reader.Extent(options_.job, job->num_attempts()));
      cursor_.attempt = job->num_attempts();
      cursor_.sequence = extent.stored_sequence;
      return absl::OkStatus();
    });
    if (!found.ok()) {
      return End(found);
    }
  }
  phase_ = Phase::CATCHING_UP;
  return ForJob(*job);
}

absl::Status WatchSession::CheckToken(const HistoryCursor& token) {
  return options_.store->Read([&](MetricReader& reader) -> absl::Status {
    AMPD_ASSIGN_OR_RETURN(const uint64_t last_event, reader.LastEventPosition(options_.job));
    AMPD_ASSIGN_OR_RETURN(const AttemptExtent extent, reader.Extent(options_.job, token.attempt));
    if (token.event > last_event || token.sequence > extent.stored_sequence) {
      return Error(absl::StatusCode::kOutOfRange, "RESUME_TOKEN_UNKNOWN",
                   "the resume token is of another history; watch again without it");
    }
    return absl::OkStatus();
  });
}

absl::Status WatchSession::ReadPage() {
  return options_.store->Read([&](MetricReader& reader) -> absl::Status {
    AMPD_ASSIGN_OR_RETURN(PointPage points,
                          reader.ReadPoints(options_.job, cursor_.attempt, cursor_.sequence, kPagePoints));
    AMPD_ASSIGN_OR_RETURN(EventPage events, reader.ReadEvents(options_.job, cursor_.event, kPageEvents));
    std::vector<HistoryItem> items = MergeHistory(points.segments, events.events, points.more, events.more);
    page_.assign(items.begin(), items.end());
    page_is_last_ = !points.more && !events.more;
    return absl::OkStatus();
  });
}

WatchSession::Step WatchSession::NextOfHistory() {
  while (true) {
    if (!page_.empty()) {
      HistoryItem item = std::move(page_.front());
      page_.pop_front();
      return ForItem(item);
    }
    if (std::exchange(page_is_last_, false)) {
      if (phase_ == Phase::LAST_CATCH_UP) {
        return Finish();
      }
      if (subscription_->TryGoLive()) {
        phase_ = Phase::LIVE;
        return NextLive();
      }
    }
    if (absl::Status read = ReadPage(); !read.ok()) {
      return End(read);
    }
  }
}

WatchSession::Step WatchSession::NextLive() {
  while (true) {
    Subscription::Taken taken = subscription_->Take();
    num_dropped_ += taken.num_dropped;
    switch (taken.kind) {
      case Subscription::Taken::ITEM:
        if (HasSeen(taken.item)) {
          continue;
        }
        return ForItem(taken.item);
      case Subscription::Taken::JOB:
        // Skips a record that is older than the one that the watcher has already received.
        if (VersionOf(*taken.job) < version_) {
          continue;
        }
        return ForJob(*taken.job);
      case Subscription::Taken::OVERFLOWED:
        return End(ErrorWithMetadata(absl::StatusCode::kResourceExhausted, "WATCHER_TOO_SLOW",
                                     "more events happened than a watcher may be behind; watch again with the token",
                                     {{"resume_token", ToResumeToken(cursor_)}}));
      case Subscription::Taken::CLOSED:
        return End(WithRetryDelay(ErrorWithMetadata(absl::StatusCode::kUnavailable, "SHUTTING_DOWN",
                                                    "the server is shutting down; watch again with the token",
                                                    {{"resume_token", ToResumeToken(cursor_)}}),
                                  absl::Seconds(1)));
      case Subscription::Taken::NOTHING:
        break;
    }
    if (!terminal_.has_value()) {
      return WaitOrBeat();
    }
    absl::StatusOr<bool> complete = TelemetryIsComplete();
    if (!complete.ok()) {
      return End(complete.status());
    }
    if (!*complete && options_.clock->SinceBoot() - terminal_since_ < options_.final_wait) {
      return WaitOrBeat();
    }
    // Waits for the event of the terminal state if that is not on disk yet. The wait has a limit, because a failing
    // disk may never store the event.
    if (!options_.store->Flush() && options_.clock->SinceBoot() - terminal_since_ < options_.final_wait) {
      return WaitOrBeat();
    }
    subscription_->StartCatchUp();
    phase_ = Phase::LAST_CATCH_UP;
    return NextOfHistory();
  }
}

absl::StatusOr<bool> WatchSession::TelemetryIsComplete() {
  if (terminal_->attempts().empty()) {
    return true;
  }
  const v1::Attempt& last = *terminal_->attempts().rbegin();
  return options_.store->Read([&](MetricReader& reader) -> absl::StatusOr<bool> {
    AMPD_ASSIGN_OR_RETURN(const AttemptExtent extent, reader.Extent(options_.job, last.number()));
    return extent.stored_sequence >= last.outcome().last_sequence();
  });
}

WatchSession::Step WatchSession::Finish() {
  phase_ = Phase::FINISHED;
  v1::WatchJobResponse message;
  *message.mutable_final() = *std::exchange(terminal_, std::nullopt);
  AddProgress(message.mutable_final());
  return Message(std::move(message));
}

bool WatchSession::HasSeen(const HistoryItem& item) const {
  if (item.event != nullptr) {
    return item.event->sequence() <= cursor_.event;
  }
  const uint64_t last = item.steps != nullptr ? *item.steps->sequence().rbegin() : item.eval->sequence();
  return cursor_.HasSeenPoint(item.attempt, last);
}

WatchSession::Step WatchSession::ForItem(const HistoryItem& item) {
  v1::WatchJobResponse message;
  if (item.event != nullptr) {
    *message.mutable_event() = *item.event;
  } else if (item.eval != nullptr) {
    *message.mutable_eval() = *item.eval;
    message.set_attempt(item.attempt);
    AddProgress(&message);
  } else {
    *message.mutable_steps() = *item.steps;
    message.set_attempt(item.attempt);
    AddProgress(&message);
  }
  item.Advance(&cursor_);
  return Message(std::move(message));
}

WatchSession::Step WatchSession::ForJob(const v1::Job& job) {
  if (IsTerminal(job.state()) && !terminal_.has_value()) {
    terminal_ = job;
    terminal_since_ = options_.clock->SinceBoot();
  }
  version_ = VersionOf(job);
  v1::WatchJobResponse message;
  *message.mutable_snapshot() = job;
  AddProgress(message.mutable_snapshot());
  return Message(std::move(message));
}

void WatchSession::AddProgress(v1::Job* job) const {
  if (options_.add_progress) {
    options_.add_progress(job);
  }
}

// Adds the job's latest progress to a message with live metric points. Messages that replay the history get no
// progress, because the latest progress does not belong to their old points.
void WatchSession::AddProgress(v1::WatchJobResponse* message) const {
  if (phase_ != Phase::LIVE || !options_.progress) {
    return;
  }
  if (std::optional<v1::Progress> progress = options_.progress(); progress.has_value()) {
    *message->mutable_progress() = *std::move(progress);
  }
}

WatchSession::Step WatchSession::Message(v1::WatchJobResponse message) {
  message.set_sequence(++sequence_);
  message.set_resume_token(ToResumeToken(cursor_));
  message.set_dropped_points(std::exchange(num_dropped_, 0));
  last_message_ = options_.clock->SinceBoot();
  return {Step::MESSAGE, std::move(message), absl::OkStatus()};
}

WatchSession::Step WatchSession::WaitOrBeat() {
  if (options_.clock->SinceBoot() - last_message_ < options_.heartbeat) {
    return {};
  }
  v1::WatchJobResponse message;
  message.mutable_heartbeat();
  return Message(std::move(message));
}

WatchSession::Step WatchSession::End(absl::Status status) { return {Step::END, {}, std::move(status)}; }

}  // namespace ampd::server
