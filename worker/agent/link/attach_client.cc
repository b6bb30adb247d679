#include "worker/agent/link/attach_client.h"

#include <grpcpp/grpcpp.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/v1/worker_service.grpc.pb.h"
#include "base/bounded_queue.h"
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
// How long the writer thread may take to notice that its stream has ended. After that time, the call is cancelled.
constexpr absl::Duration kWriterTimeout = absl::Seconds(1);
constexpr size_t kMaxTelemetryQueue = 32;
constexpr size_t kMaxReportQueue = 1;

// A bidirectional gRPC stream, which is reopened after every end until Stop. Sends messages of type Out to the server
// and receives messages of type In. Messages wait in a queue; when the connection is lost, the messages still in the
// queue are dropped. Thread-safe.
template <typename Out, typename In>
class Stream {
 public:
  using Open = std::function<std::unique_ptr<grpc::ClientReaderWriterInterface<Out, In>>(grpc::ClientContext*)>;
  struct Options {
    std::shared_ptr<grpc::Channel> channel;
    Open open;
    size_t capacity = 1;          // Maximum number of messages in the queue.
    bool replace_oldest = false;  // If the queue is full, Send drops the oldest message instead of failing.
    std::function<void()> on_open;
    std::function<void(In)> on_message;
    std::function<void()> on_room;  // Called when a full queue has space again.
    // `connected`: whether the stream was established before it ended.
    std::function<void(const grpc::Status&, bool connected)> on_end;
  };

  explicit Stream(Options options) : options_(std::move(options)) {}

  void Start() {
    thread_ = std::thread([this] { RunUntilStopped(); });
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

  // Returns false if there is no stream, or if the queue is full.
  bool Send(const Out& message) {
    const std::shared_ptr<Queue> queue = CurrentQueue();
    if (queue == nullptr) {
      return false;
    }
    if (queue->TryPush(message)) {
      return true;
    }
    if (!options_.replace_oldest) {
      return false;
    }
    queue->Pop(absl::ZeroDuration());
    return queue->TryPush(message);
  }

 private:
  using Queue = BoundedQueue<Out>;
  enum class Ending { kNoConnection, kUnanswered, kAnswered };

  void RunUntilStopped() {
    absl::Duration backoff = kFirstBackoff;
    Ending ending = Ending::kUnanswered;
    while (!Stopped()) {
      // Report the first failure to connect at once. After a failure, let the next call wait for a connection, because
      // gRPC connects only while a call waits.
      ending = RunOnce(/*wait_for_connection=*/ending == Ending::kNoConnection);
      // If the server answered before the connection ended, it may have restarted. Then the lease must be renewed soon,
      // so the next pause is short again.
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
    // Opening returns when the channel is connected, when connecting has failed, or when Stop has cancelled it.
    auto stream = options_.open(&context);
    const bool connected = options_.channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
    const bool answered = connected && Exchange(context, *stream);
    // Do not cancel the context before Finish, because that would hide the status with which the server ended the
    // stream.
    const grpc::Status status = stream->Finish();
    bool stopped = false;
    {
      absl::MutexLock lock(&mutex_);
      context_ = nullptr;
      stopped = stopped_;
    }
    if (!stopped) {
      options_.on_end(status, connected);
    }
    return answered ? Ending::kAnswered : connected ? Ending::kUnanswered : Ending::kNoConnection;
  }

  // Runs until the stream ends. Returns whether the server sent any message on it.
  bool Exchange(grpc::ClientContext& context, grpc::ClientReaderWriterInterface<Out, In>& stream) {
    const auto queue = std::make_shared<Queue>(options_.capacity);
    {
      absl::MutexLock lock(&mutex_);
      queue_ = queue;
      is_writing_ = true;
    }
    options_.on_open();
    std::thread writer([&] {
      Write(*queue, stream);
      absl::MutexLock lock(&mutex_);
      is_writing_ = false;
    });
    bool answered = false;
    In message;
    while (stream.Read(&message)) {
      answered = true;
      options_.on_message(std::move(message));
    }
    queue->Close();
    bool stuck = false;
    {
      absl::MutexLock lock(&mutex_);
      queue_ = nullptr;
      const auto has_ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !is_writing_; };
      stuck = !AwaitFor(mutex_, absl::Condition(&has_ended), kWriterTimeout);
    }
    if (stuck) {
      context.TryCancel();
    }
    writer.join();
    return answered;
  }

  // Writes messages until the queue is closed or the stream ends. A failed write needs no report here, because the
  // reading thread then also sees the end of the stream.
  void Write(Queue& queue, grpc::ClientReaderWriterInterface<Out, In>& stream) {
    std::optional<Out> message;
    do {
      message = queue.Pop();
      if (message.has_value() && queue.size() + 1 >= options_.capacity) {
        options_.on_room();
      }
    } while (message.has_value() && stream.Write(*message));
  }

  // Waits for a random time between half of `backoff` and all of it, so that workers do not all reconnect at once.
  void Pause(absl::Duration backoff) {
    const double share = 0.5 + 0.5 * static_cast<double>(SystemRandom().Next() >> 11) * 0x1p-53;
    absl::MutexLock lock(&mutex_);
    AwaitFor(mutex_, absl::Condition(&stopped_), backoff * share);
  }

  bool Stopped() {
    absl::MutexLock lock(&mutex_);
    return stopped_;
  }

  std::shared_ptr<Queue> CurrentQueue() {
    absl::MutexLock lock(&mutex_);
    return queue_;
  }

  const Options options_;
  std::thread thread_;
  absl::Mutex mutex_;
  std::shared_ptr<Queue> queue_ ABSL_GUARDED_BY(mutex_);  // null while there is no stream
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

using AttachStream = Stream<v1::WorkerReport, v1::WorkerDirective>;
using TelemetryStream = Stream<v1::TelemetryUpload, v1::TelemetryAck>;

}  // namespace

struct AttachClient::State {
  Options options;
  UniqueFd wake{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::unique_ptr<v1::WorkerService::Stub> stub;
  std::unique_ptr<AttachStream> attach;
  std::unique_ptr<TelemetryStream> telemetry;
  absl::Mutex mutex;
  Arrivals arrivals ABSL_GUARDED_BY(mutex);
  std::set<std::string> reported ABSL_GUARDED_BY(mutex);  // Errors logged since the server last accepted this worker.

  void Wake() {
    const uint64_t one = 1;
    (void)!write(wake.get(), &one, sizeof(one));
  }
  void OnAttachOpened() {
    {
      absl::MutexLock lock(&mutex);
      ++arrivals.num_attach_streams;
    }
    Wake();
  }
  void OnTelemetryOpened() {
    {
      absl::MutexLock lock(&mutex);
      ++arrivals.num_telemetry_streams;
    }
    Wake();
  }
  void OnDirective(v1::WorkerDirective directive) {
    {
      absl::MutexLock lock(&mutex);
      arrivals.directives.push_back(std::move(directive));
      reported.clear();
    }
    Wake();
  }
  void OnAck(v1::TelemetryAck ack) {
    {
      absl::MutexLock lock(&mutex);
      arrivals.acks.push_back(std::move(ack));
    }
    Wake();
  }
  // Logs why the stream ended. An error that was already logged is logged again only if the server has accepted this
  // worker in between.
  void OnStreamEnded(const grpc::Status& status, bool connected) {
    const std::string reason = ReasonOf(FromGrpcStatus(status));
    if (reason == "REPLACED") {
      {
        absl::MutexLock lock(&mutex);
        arrivals.is_replaced = true;
      }
      Wake();
      return;  // the agent logs this case (Reporter::OnReplaced)
    }
    const std::string message = status.ok() ? "the server closed it" : status.error_message();
    const std::string line = reason == "WORKER_NAME_IN_USE"
                                 ? message
                                 : absl::StrCat(connected ? "stream to " : "can't connect to ", options.server.address,
                                                connected ? " ended: " : ": ", message);
    {
      absl::MutexLock lock(&mutex);
      if (!reported.insert(line).second) {
        return;
      }
    }
    options.log(line);
  }
};

AttachClient::AttachClient(Options options) : state_(std::make_unique<State>()) {
  State* state = state_.get();
  state->options = std::move(options);
  const std::shared_ptr<grpc::Channel> channel = MakeServerChannel(state->options.server);
  state->stub = v1::WorkerService::NewStub(channel);
  AttachStream::Options attach;
  attach.channel = channel;
  attach.open = [state](grpc::ClientContext* context) { return state->stub->Attach(context); };
  attach.capacity = kMaxReportQueue;
  attach.replace_oldest = true;
  attach.on_open = [state] { state->OnAttachOpened(); };
  attach.on_message = [state](v1::WorkerDirective directive) { state->OnDirective(std::move(directive)); };
  attach.on_room = [state] { state->Wake(); };
  attach.on_end = [state](const grpc::Status& status, bool connected) { state->OnStreamEnded(status, connected); };
  state->attach = std::make_unique<AttachStream>(std::move(attach));
  TelemetryStream::Options telemetry;
  telemetry.channel = channel;
  telemetry.open = [state](grpc::ClientContext* context) { return state->stub->ReportTelemetry(context); };
  telemetry.capacity = kMaxTelemetryQueue;
  telemetry.on_open = [state] { state->OnTelemetryOpened(); };
  telemetry.on_message = [state](v1::TelemetryAck ack) { state->OnAck(std::move(ack)); };
  telemetry.on_room = [state] { state->Wake(); };
  telemetry.on_end = [state](const grpc::Status& status, bool connected) { state->OnStreamEnded(status, connected); };
  state->telemetry = std::make_unique<TelemetryStream>(std::move(telemetry));
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

ServerLink::Arrivals AttachClient::ReceiveArrivals() {
  absl::MutexLock lock(&state_->mutex);
  return std::exchange(state_->arrivals, Arrivals());
}

int AttachClient::wake_fd() const { return state_->wake.get(); }

}  // namespace ampd::agent
