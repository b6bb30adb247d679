#include "server/rpc/calls/open_streams.h"

#include <utility>

#include "absl/time/time.h"
#include "base/error.h"
#include "base/timed_wait.h"

namespace ampd::server {
namespace {

absl::Status RightsChanged() {
  return WithRetryDelay(Error(absl::StatusCode::kUnavailable, "RIGHTS_CHANGED",
                              "the caller's rights have changed since the call began; call again"),
                        absl::Seconds(1));
}

}  // namespace

void OpenStreams::BeginClosing() {
  const absl::MutexLock lock(&mutex_);
  closing_ = true;
  for (const auto& [context, stream] : streams_) {
    stream.stream->OnClosing();
  }
}

void OpenStreams::Add(grpc::CallbackServerContext* context, std::string_view method, Tenants tenants,
                      OpenStream* stream) {
  // The first call of each of these two functions sets a member of the context, without a lock. The stream's thread
  // makes these first calls here, because EndDenied later calls the functions on another thread.
  context->auth_context();
  context->client_metadata();
  const absl::MutexLock lock(&mutex_);
  streams_[context] = {.method = method, .tenants = std::move(tenants), .stream = stream};
}

void OpenStreams::Remove(grpc::CallbackServerContext* context) {
  const absl::MutexLock lock(&mutex_);
  streams_.erase(context);
}

int OpenStreams::EndDenied(const Check& check) {
  int num_ended = 0;
  const absl::MutexLock lock(&mutex_);
  for (auto& [context, stream] : streams_) {
    const absl::StatusOr<Tenants> now = check(*context, stream.method);
    const absl::Status status = now.ok() && !now->Contain(stream.tenants) ? RightsChanged() : now.status();
    if (status.ok()) {
      stream.was_denied = false;
    } else if (std::exchange(stream.was_denied, true)) {
      context->TryCancel();
    } else {
      stream.stream->OnDenied(status);
      ++num_ended;
    }
  }
  return num_ended;
}

void OpenStreams::AwaitNone(absl::Duration timeout) const {
  const absl::MutexLock lock(&mutex_);
  AwaitFor(mutex_, absl::Condition(this, &OpenStreams::None), timeout);
}

}  // namespace ampd::server
