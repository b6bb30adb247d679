#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/grpc/grpc_status.h"
#include "base/status_macros.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/calls/ticker.h"

namespace ampd::server {

// Writes a session's messages to one client; at most one message is in flight. A session has a function
//
//   Step Next()   returns WAIT (nothing to send now), MESSAGE, or END with a status; may block on the disk; called on
//                 the pool, by one thread at a time
//
// and calls Kick, through a weak pointer, when it may have something to send. The ticker also calls Kick once a second.
// If a client takes no message for `kWriteDeadline`, it is disconnected; it can resume with the resume token of its
// last message.
//
// At any time, at most one of these is active: one pump (the loop on the pool that calls Next) or one write. The object
// keeps itself alive until OnDone.
template <typename Message, typename Session>
class StreamReactor final : public grpc::ServerWriteReactor<Message>, public OpenStream, public Ticking {
 public:
  static constexpr absl::Duration kWriteDeadline = absl::Seconds(60);

  StreamReactor(const CallEnvironment& environment, grpc::CallbackServerContext* context, std::string_view method)
      : environment_(environment), context_(context), method_(method), caller_(environment.audit->CallerOf(*context)) {
    environment_.observer->StreamOpened(method_);
    AddOpenStream(environment_, context_, method_, this);
  }

  // Starts the stream. The reactor lives until the stream is done.
  static void Run(std::shared_ptr<StreamReactor> reactor, std::unique_ptr<Session> session, Ticker* ticker) {
    reactor->session_ = std::move(session);
    {
      absl::MutexLock lock(&reactor->mutex_);
      reactor->self_ = reactor;
    }
    ticker->Add(reactor);
    reactor->Kick();
  }
  // Ends the stream with an error instead of starting it.
  static void Refuse(std::shared_ptr<StreamReactor> reactor, const absl::Status& status) {
    absl::MutexLock lock(&reactor->mutex_);
    reactor->self_ = reactor;
    reactor->FinishLocked(status);
  }

  // Checks whether the caller may open the stream. If so, the stream counts as open until it is done. Call it once,
  // before Run or Refuse.
  absl::Status Admit() {
    AMPD_ASSIGN_OR_RETURN(slot_, environment_.guard->AdmitStream(*context_, method_));
    return absl::OkStatus();
  }

  // Schedules another call of the session's Next on the pool.
  void Kick() {
    absl::MutexLock lock(&mutex_);
    KickLocked();
  }

  void Tick(absl::Duration since_boot) override {
    absl::MutexLock lock(&mutex_);
    if (state_ == State::WRITING && since_boot - write_start_ > kWriteDeadline) {
      context_->TryCancel();
    }
    KickLocked();
  }

  void OnDenied(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    denied_ = status;
    if (state_ == State::IDLE) {
      FinishLocked(denied_);
    }
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    state_ = State::IDLE;
    if (!ok || cancelled_) {
      FinishLocked(absl::CancelledError("the client left"));
      return;
    }
    environment_.observer->StreamMessageSent(method_);
    if (!denied_.ok()) {
      FinishLocked(denied_);
      return;
    }
    KickLocked();
  }

  void OnCancel() override {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (state_ == State::IDLE) {
      FinishLocked(absl::CancelledError("the client left"));
    }
  }

  void OnDone() override {
    environment_.open_streams->Remove(context_);
    std::shared_ptr<StreamReactor> self;
    {
      absl::MutexLock lock(&mutex_);
      self = std::move(self_);
    }
  }

 private:
  enum class State { IDLE, PUMPING, WRITING, FINISHED };

  void KickLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    again_ = true;
    if (state_ != State::IDLE) {
      return;
    }
    // If the pool is full, the next tick tries again.
    if (environment_.pool->TryPost([self = self_] { self->Pump(); })) {
      state_ = State::PUMPING;
    }
  }

  void Pump() {
    while (true) {
      {
        absl::MutexLock lock(&mutex_);
        again_ = false;
        if (cancelled_) {
          FinishLocked(absl::CancelledError("the client left"));
          return;
        }
        if (!denied_.ok()) {
          FinishLocked(denied_);
          return;
        }
      }
      auto step = session_->Next();
      absl::MutexLock lock(&mutex_);
      if (step.kind == Session::Step::MESSAGE) {
        message_ = std::move(step.message);
        state_ = State::WRITING;
        write_start_ = SystemClock().SinceBoot();
        this->StartWrite(&message_);
        return;
      }
      if (step.kind == Session::Step::END) {
        FinishLocked(step.status);
        return;
      }
      if (!again_ && !cancelled_ && denied_.ok()) {
        state_ = State::IDLE;
        return;
      }
    }
  }

  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (state_ == State::FINISHED) {
      return;
    }
    state_ = State::FINISHED;
    environment_.audit->Finished(caller_, method_, "", status);
    environment_.observer->Finished(method_, status.code(), absl::ZeroDuration(), /*is_stream=*/true, caller_.trace);
    if (!status.ok() && !absl::IsCancelled(status)) {
      environment_.observer->Refused(method_, status, environment_.guard->PeerText(*context_), caller_.trace);
    }
    slot_.reset();  // Released before the client learns of the end, as it may open the next stream at once.
    this->Finish(ToGrpcStatus(status));
  }

  const CallEnvironment& environment_;
  grpc::CallbackServerContext* const context_;
  const std::string_view method_;
  const AuditCaller caller_;
  CallLimits::Slot slot_;
  std::unique_ptr<Session> session_;  // Used only by the pump.

  absl::Mutex mutex_;
  std::shared_ptr<StreamReactor> self_ ABSL_GUARDED_BY(mutex_);
  State state_ ABSL_GUARDED_BY(mutex_) = State::IDLE;
  bool again_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status denied_ ABSL_GUARDED_BY(mutex_);  // If not OK, the stream must end with this status.
  absl::Duration write_start_ ABSL_GUARDED_BY(mutex_);
  Message message_;
};

// Returns a callback that calls Kick if the reactor still exists. The callback does not keep the reactor alive.
template <typename Reactor>
std::function<void()> Wake(const std::shared_ptr<Reactor>& reactor) {
  return [weak = std::weak_ptr<Reactor>(reactor)] {
    if (std::shared_ptr<Reactor> alive = weak.lock()) {
      alive->Kick();
    }
  };
}

}  // namespace ampd::server
