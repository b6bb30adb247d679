#include "worker/agent/link/attach_client.h"

#include <grpcpp/grpcpp.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/v1/worker_service.grpc.pb.h"
#include "base/error.h"
#include "base/grpc/grpc_status.h"
#include "base/io/file.h"
#include "base/random.h"
#include "base/timed_wait.h"
#include "worker/agent/link/server_channel.h"

namespace ampd::agent {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);
constexpr absl::Duration kLastBackoff = absl::Seconds(3);
// A writer that has not seen the end of its stream by then is cancelled.
constexpr absl::Duration kWriterTimeout = absl::Seconds(1);
constexpr size_t kMaxTelemetryQueue = 32;
constexpr size_t kMaxReportQueue = 1;

// One bidirectional stream that is reopened until Stop. Sends Out to the server and receives In. Thread-safe.
template <typename Out, typename In>
class Stream {
 public:
  using Open = std::function<std::unique_ptr<grpc::ClientReaderWriterInterface<Out, In>>(grpc::ClientContext*)>;
  struct Callbacks {
    std::function<void()> on_open;
    std::function<void(In)> on_message;
    std::function<void()> on_room;
    // `connected`: whether the stream was established before it ended.
    std::function<void(const grpc::Status&, bool connected)> on_end;
  };

  Stream(std::shared_ptr<grpc::Channel> channel, Open open, size_t capacity, bool replace_oldest, Callbacks callbacks)
      : channel_(std::move(channel)),
        open_(std::move(open)),
        capacity_(capacity),
        replace_oldest_(replace_oldest),
        callbacks_(std::move(callbacks)) {}

  void Start() {
    thread_ = std::thread([this] { RunForEver(); });
  }

  void Stop() {
    {
      absl::MutexLock lock(&mutex_);
      stopped_ = true;
      if (context_ != nullptr) {
        context_->TryCancel();
      }
    }
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  bool Send(Out message) {
    absl::MutexLock lock(&mutex_);
    if (!is_open_) {
      return false;
    }
    if (queue_.size() >= capacity_) {
      if (!replace_oldest_) {
        return false;
      }
      queue_.pop_front();
    }
    queue_.push_back(std::move(message));
    return true;
  }

 private:
  enum class Ending { kNoConnection, kUnanswered, kAnswered };

  void RunForEver() {
    absl::Duration backoff = kFirstBackoff;
    Ending ending = Ending::kUnanswered;
    while (!Stopped()) {
      // A first failure to connect is reported at once. After it the call waits for a connection, because gRPC only
      // makes one while a call waits.
      ending = RunOnce(/*wait_for_connection=*/ending == Ending::kNoConnection);
      // A server that answers is healthy. After its restart, lease renewal must not wait for pauses that grew before.
      if (ending == Ending::kAnswered) {
        backoff = kFirstBackoff;
      }
      Pause(backoff);
      backoff = std::min(backoff * 2, kLastBackoff);
    }
  }

  Ending RunOnce(bool wait_for_connection) {
    grpc::ClientContext context;
    context.set_wait_for_ready(wait_for_connection);
    {
      absl::MutexLock lock(&mutex_);
      if (stopped_) {
        return Ending::kNoConnection;
      }
      context_ = &context;
    }
    // Returns once there is a connection, an attempt to connect has failed, or Stop has cancelled it.
    auto stream = open_(&context);
    const bool connected = channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
    const bool answered = connected && Exchange(context, *stream);
    // The context is not cancelled before, which would hide the status with which the server ended the stream.
    const grpc::Status status = stream->Finish();
    bool stopped = false;
    {
      absl::MutexLock lock(&mutex_);
      context_ = nullptr;
      stopped = stopped_;
    }
    if (!stopped) {
      callbacks_.on_end(status, connected);
    }
    return answered ? Ending::kAnswered : connected ? Ending::kUnanswered : Ending::kNoConnection;
  }

  // Runs until the stream ends. Returns whether anything arrived on it.
  bool Exchange(grpc::ClientContext& context, grpc::ClientReaderWriterInterface<Out, In>& stream) {
    {
      absl::MutexLock lock(&mutex_);
      queue_.clear();
      is_open_ = true;
      is_writing_ = true;
    }
    callbacks_.on_open();
    std::thread writer([&] {
      Write(stream);
      absl::MutexLock lock(&mutex_);
      is_writing_ = false;
    });
    bool answered = false;
    In message;
    while (stream.Read(&message)) {
      answered = true;
      callbacks_.on_message(std::move(message));
    }
    bool stuck = false;
    {
      absl::MutexLock lock(&mutex_);
      is_open_ = false;
      queue_.clear();
      const auto has_ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !is_writing_; };
      stuck = !AwaitFor(mutex_, absl::Condition(&has_ended), kWriterTimeout);
    }
    if (stuck) {
      context.TryCancel();
    }
    writer.join();
    return answered;
  }

  void Write(grpc::ClientReaderWriterInterface<Out, In>& stream) {
    while (true) {
      Out message;
      bool was_full = false;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &Stream::HasMessageOrClosed));
        if (!is_open_) {
          return;
        }
        was_full = queue_.size() >= capacity_;
        message = std::move(queue_.front());
        queue_.pop_front();
      }
      if (was_full) {
        callbacks_.on_room();
      }
      if (!stream.Write(message)) {
        return;  // the reader sees the end of the stream too
      }
    }
  }

  // Waits between half and all of `backoff`, so that the workers of a fleet do not reconnect in step.
  void Pause(absl::Duration backoff) {
    const double share = 0.5 + 0.5 * static_cast<double>(SystemRandom().Next() >> 11) * 0x1p-53;
    absl::MutexLock lock(&mutex_);
    AwaitFor(mutex_, absl::Condition(&stopped_), backoff * share);
  }

  bool Stopped() {
    absl::MutexLock lock(&mutex_);
    return stopped_;
  }

  bool HasMessageOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !queue_.empty() || !is_open_; }

  const std::shared_ptr<grpc::Channel> channel_;
  const Open open_;
  const size_t capacity_;
  const bool replace_oldest_;
  const Callbacks callbacks_;
  std::thread thread_;
  absl::Mutex mutex_;
  std::deque<Out> queue_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

struct AttachClient::State {
  Options options;
  UniqueFd wake{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::unique_ptr<v1::WorkerService::Stub> stub;
  std::unique_ptr<Stream<v1::WorkerReport, v1::WorkerDirective>> attach;
  std::unique_ptr<Stream<v1::TelemetryUpload, v1::TelemetryAck>> telemetry;
  absl::Mutex mutex;
  Arrivals arrivals ABSL_GUARDED_BY(mutex);
  std::string last_error ABSL_GUARDED_BY(mutex);

  void Wake() {
    const uint64_t one = 1;
    (void)!write(wake.get(), &one, sizeof(one));
  }
  template <typename Change>
  void Arrive(Change change) {
    {
      absl::MutexLock lock(&mutex);
      change(arrivals);
    }
    Wake();
  }
  // Logs why the stream ended. A repeated error is not logged again until the server has accepted this worker in
  // between.
  void Ended(const grpc::Status& status, bool connected) {
    const std::string reason = ReasonOf(FromGrpcStatus(status));
    if (reason == "REPLACED") {
      Arrive([](Arrivals& come) { come.is_replaced = true; });
      return;  // the agent logs it
    }
    const std::string message = status.ok() ? "the server closed it" : status.error_message();
    const std::string line = reason == "WORKER_NAME_IN_USE"
                                 ? message
                                 : absl::StrCat(connected ? "stream to " : "can't connect to ", options.server,
                                                connected ? " ended: " : ": ", message);
    {
      absl::MutexLock lock(&mutex);
      if (std::exchange(last_error, line) == line) {
        return;
      }
    }
    options.log(line);
  }
};

AttachClient::AttachClient(Options options) : state_(std::make_unique<State>()) {
  State* state = state_.get();
  state->options = std::move(options);
  std::shared_ptr<grpc::Channel> channel = MakeServerChannel(state->options.server);
  state->stub = v1::WorkerService::NewStub(channel);
  const auto on_end = [state](const grpc::Status& status, bool connected) { state->Ended(status, connected); };
  const auto on_room = [state] { state->Wake(); };
  state->attach = std::make_unique<Stream<v1::WorkerReport, v1::WorkerDirective>>(
      channel, [state](grpc::ClientContext* context) { return state->stub->Attach(context); }, kMaxReportQueue,
      /*replace_oldest=*/true,
      Stream<v1::WorkerReport, v1::WorkerDirective>::Callbacks{
          [state] { state->Arrive([](Arrivals& arrivals) { ++arrivals.num_attach_streams; }); },
          [state](v1::WorkerDirective directive) {
            state->Arrive([&](Arrivals& arrivals) ABSL_NO_THREAD_SAFETY_ANALYSIS {
              arrivals.directives.push_back(std::move(directive));
              state->last_error.clear();
            });
          },
          on_room, on_end});
  state->telemetry = std::make_unique<Stream<v1::TelemetryUpload, v1::TelemetryAck>>(
      channel, [state](grpc::ClientContext* context) { return state->stub->ReportTelemetry(context); },
      kMaxTelemetryQueue, /*replace_oldest=*/false,
      Stream<v1::TelemetryUpload, v1::TelemetryAck>::Callbacks{
          [state] { state->Arrive([](Arrivals& arrivals) { ++arrivals.num_telemetry_streams; }); },
          [state](v1::TelemetryAck ack) {
            state->Arrive([&](Arrivals& arrivals) { arrivals.acks.push_back(std::move(ack)); });
          },
          on_room, on_end});
}

AttachClient::~AttachClient() {
  state_->attach->Stop();
  state_->telemetry->Stop();
}

void AttachClient::Start() {
  state_->attach->Start();
  state_->telemetry->Start();
}

void AttachClient::SendReport(const v1::WorkerReport& report) { state_->attach->Send(report); }

bool AttachClient::SendTelemetry(const v1::TelemetryUpload& upload) { return state_->telemetry->Send(upload); }

ServerLink::Arrivals AttachClient::Take() {
  absl::MutexLock lock(&state_->mutex);
  return std::exchange(state_->arrivals, Arrivals());
}

int AttachClient::wake_fd() const { return state_->wake.get(); }

}  // namespace ampd::agent
