#include "server/telemetry/log_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

constexpr int64_t kPageBytes = 64 << 10;

}  // namespace

absl::Status LogSession::FindAttempt(const v1::Job& job) {
  attempt_ = options_.request.attempt() == 0 ? job.num_attempts() : options_.request.attempt();
  if (attempt_ < 0 || attempt_ > job.num_attempts()) {
    return ErrorWithMetadata(absl::StatusCode::kNotFound, "ATTEMPT_NOT_FOUND",
                             absl::StrCat("job ", job.id(), " has no attempt ", attempt_), {{"job", job.id()}});
  }
  return absl::OkStatus();
}

absl::Status LogSession::Begin() {
  AMPD_ASSIGN_OR_RETURN(const v1::Job job, options_.get_job());
  AMPD_RETURN_IF_ERROR(FindAttempt(job));
  // The hub needs memory for each job that has readers, so the session subscribes only to a job that the caller may
  // see. Next reads the job and the log after this, so it misses no text.
  subscription_ = options_.hub->SubscribeLog(job.id(), options_.on_ready);
  offset_ = options_.request.offset_bytes();
  if (offset_ < 0) {
    AMPD_ASSIGN_OR_RETURN(const AttemptExtent extent, options_.store->Read([&](MetricReader& reader) {
      return reader.Extent(job.id(), attempt_);
    }));
    offset_ = std::max<int64_t>(0, extent.log_end_bytes + offset_);
  }
  begun_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> LogSession::AttemptHasEnded() {
  AMPD_ASSIGN_OR_RETURN(const v1::Job job, options_.get_job());
  if (attempt_ == 0) {
    // The reader began while the job was queued, so it gets the log of the first attempt.
    attempt_ = std::min(job.num_attempts(), 1);
  }
  // The session reads the log of one attempt only, because the log of a later attempt begins at another offset.
  if (job.num_attempts() > attempt_) {
    return true;
  }
  const bool terminal = IsTerminal(job.state());
  return terminal || (!job.attempts().empty() && job.attempts().rbegin()->state() == v1::Attempt::ENDED);
}

LogSession::Step LogSession::Next() {
  if (!begun_) {
    if (absl::Status begun = Begin(); !begun.ok()) {
      return {Step::END, {}, begun};
    }
  }
  // The session checks whether the attempt has ended before it reads the log. If the attempt has ended by then, all of
  // its log that arrived in time is already stored.
  absl::StatusOr<bool> ended = AttemptHasEnded();
  if (!ended.ok()) {
    return {Step::END, {}, ended.status()};
  }
  absl::StatusOr<LogPage> page = options_.store->Read(
      [&](MetricReader& reader) { return reader.ReadLog(options_.request.id(), attempt_, offset_, kPageBytes); });
  if (!page.ok()) {
    return {Step::END, {}, page.status()};
  }
  if (page->content.empty()) {
    const bool done = *ended || !options_.request.follow();
    return done ? Step{Step::END, {}, absl::OkStatus()} : Step{};
  }
  Step step;
  step.kind = Step::MESSAGE;
  step.message.set_attempt(attempt_);
  step.message.set_offset_bytes(page->offset_bytes);
  step.message.set_dropped_bytes(page->dropped_bytes);
  offset_ = page->offset_bytes + static_cast<int64_t>(page->content.size());
  step.message.set_content(std::move(page->content));
  return step;
}

}  // namespace ampd::server
