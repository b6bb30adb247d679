#include "client/api/job_watch.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "client/api/job_client_stubs.h"
#include "client/api/stream_pull.h"

namespace ampd::client {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(2);

using WatchStream = StreamPull<v1::WatchJobResponse>;
using LogStream = StreamPull<v1::TailLogsResponse>;

}  // namespace

// An open WatchJob stream. Requesting the cancellation ends the stream.
struct JobWatch::Call {
  Call(v1::JobService::Stub* stub, v1::WatchJobRequest watch, Cancellation* stop)
      : request(std::move(watch)),
        stream([&](grpc::ClientContext* context, WatchStream* reactor) {
          stub->async()->WatchJob(context, &request, reactor);
        }),
        cancellation(stop) {
    cancellation->SetListener([this] { stream.Cancel(); });
  }
  ~Call() { cancellation->SetListener(nullptr); }

  v1::WatchJobRequest request;
  WatchStream stream;
  Cancellation* cancellation;
};

JobWatch::JobWatch(JobClient* client, Options options, Cancellation* cancellation)
    : client_(client),
      options_(std::move(options)),
      cancellation_(cancellation),
      pause_(kFirstPause),
      last_message_(SystemClock().SinceBoot()) {}

JobWatch::~JobWatch() = default;

void JobWatch::Open() {
  v1::WatchJobRequest request;
  request.set_id(options_.id);
  request.set_resume_token(resume_token_);
  request.set_from_start(options_.from_start && resume_token_.empty());
  call_ = std::make_unique<Call>(client_->stubs().jobs.get(), std::move(request), cancellation_);
  silent_since_ = SystemClock().SinceBoot();
}

JobWatch::Next JobWatch::Pull(absl::Duration deadline, v1::WatchJobResponse* message) {
  if (cancellation_->cancelled()) {
    return Next::kCancelled;
  }
  if (call_ == nullptr) {
    Open();
  }
  switch (call_->stream.Pull(std::min(deadline, silent_since_ + options_.silence_limit), message)) {
    case WatchStream::Next::kTimeout:
      return SystemClock().SinceBoot() < silent_since_ + options_.silence_limit
                 ? Next::kTimeout
                 : Lost(absl::UnavailableError("the server stopped answering"));
    case WatchStream::Next::kEnded:
      return HandleEnd();
    case WatchStream::Next::kMessage:
      break;
  }
  last_message_ = silent_since_ = SystemClock().SinceBoot();
  pause_ = kFirstPause;
  if (!message->resume_token().empty()) {
    resume_token_ = message->resume_token();
  }
  final_seen_ = final_seen_ || message->has_final();
  return Next::kMessage;
}

JobWatch::Next JobWatch::HandleEnd() {
  const absl::Status ended = call_->stream.status();
  if (cancellation_->cancelled()) {
    call_.reset();
    return Next::kCancelled;
  }
  if (final_seen_) {
    status_ = absl::OkStatus();
    return Next::kEnded;
  }
  if (absl::IsOutOfRange(ended) && !resume_token_.empty()) {
    resume_token_.clear();
    return Lost(ended);
  }
  if (ended.ok()) {
    return Lost(absl::UnavailableError("the stream ended before the job did"));
  }
  if (absl::IsUnavailable(ended) || (absl::IsResourceExhausted(ended) && !resume_token_.empty())) {
    return Lost(ended);
  }
  status_ = ended;
  return Next::kEnded;
}

JobWatch::Next JobWatch::Lost(const absl::Status& why) {
  call_.reset();
  const absl::Duration patience =
      resume_token_.empty() ? options_.patience.before_first_answer : options_.patience.after_loss;
  if (absl::IsUnavailable(why) && SystemClock().SinceBoot() > last_message_ + patience) {
    status_ = why;
    return Next::kEnded;
  }
  if (cancellation_->WaitFor(pause_)) {
    return Next::kCancelled;
  }
  pause_ = std::min(pause_ * 2, kLongestPause);
  return Next::kReconnecting;
}

LogTail::LogTail(JobClient* client, Options options, Cancellation* cancellation)
    : client_(client), options_(std::move(options)), cancellation_(cancellation) {}

absl::Status LogTail::Run(const std::function<void(const v1::TailLogsResponse&)>& sink) {
  v1::TailLogsRequest& request = options_.request;
  bool received = false;
  absl::Duration last = SystemClock().SinceBoot();
  absl::Duration pause = kFirstPause;
  while (!cancellation_->cancelled()) {
    LogStream stream([&](grpc::ClientContext* context, LogStream* reactor) {
      client_->stubs().jobs->async()->TailLogs(context, &request, reactor);
    });
    cancellation_->SetListener([&stream] { stream.Cancel(); });
    v1::TailLogsResponse piece;
    while (stream.Pull(absl::InfiniteDuration(), &piece) == LogStream::Next::kMessage) {
      sink(piece);
      received = true;
      last = SystemClock().SinceBoot();
      pause = kFirstPause;
      request.set_attempt(piece.attempt());
      request.set_offset_bytes(piece.offset_bytes() + static_cast<int64_t>(piece.content().size()));
    }
    cancellation_->SetListener(nullptr);
    const absl::Status ended = stream.status();
    const absl::Duration patience = received ? options_.patience.after_loss : options_.patience.before_first_answer;
    const bool again = absl::IsUnavailable(ended) && SystemClock().SinceBoot() < last + patience;
    if (!again) {
      return cancellation_->cancelled() ? absl::CancelledError("stopped") : ended;
    }
    cancellation_->WaitFor(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
  return absl::CancelledError("stopped");
}

}  // namespace ampd::client
