// Tells ThreadSanitizer about gRPC's hand-overs, in a build with it. The distribution's libgrpc and libgrpc++ are not
// instrumented: a thread starts operations on a call, a thread of gRPC's finishes them, and the queue between the two
// is not seen. But the tag of the operations is made and run by gRPC's headers, so it is in our programs. The
// definitions below, which the dynamic linker takes before the libraries', say that who finishes a tag comes after who
// started it, and that a call's OnDone comes after all that was counted in the call. They say nothing about two tags of
// one call, nor about what the callbacks do: their locks are ours, and are watched. grpc_tsan_test.cc holds it to that.
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include <atomic>

#include "grpcpp/support/callback_common.h"
#include "grpcpp/support/server_callback.h"
#include "tests/sanitizer/real_function.h"

namespace {

using ampd::sanitizer::RealFunction;

using Run = void (*)(grpc_completion_queue_functor*, int);

// Which private function of gRPC's headers finishes a tag. An explicit instantiation may name a private member; that is
// the one way to its address.
struct SuccessTag {
  friend constexpr Run FinishOf(SuccessTag);
};
struct StatusTag {
  friend constexpr Run FinishOf(StatusTag);
};
template <typename Tag, Run kFinish>
struct Expose {
  friend constexpr Run FinishOf(Tag) { return kFinish; }
};
template struct Expose<SuccessTag, &grpc::internal::CallbackWithSuccessTag::StaticRun>;
template struct Expose<StatusTag, &grpc::internal::CallbackWithStatusTag::StaticRun>;

template <typename Tag>
void FinishAfterStart(grpc_completion_queue_functor* tag, int ok) {
  __tsan_acquire(tag);
  FinishOf(Tag())(tag, ok);
}

template <typename Tag>
void SayStarted(grpc_completion_queue_functor* tag) {
  if (tag->functor_run == FinishOf(Tag())) {
    tag->functor_run = &FinishAfterStart<Tag>;
  }
  if (tag->functor_run == &FinishAfterStart<Tag>) {
    __tsan_release(tag);
  }
}

}  // namespace

extern "C" grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t nops, void* tag,
                                                 void* reserved) {
  static auto* const real =
      RealFunction<grpc_call_error(grpc_call*, const grpc_op*, size_t, void*, void*)>("grpc_call_start_batch");
  // A tag that is waited for, instead of run, begins with another pointer: it is none of these.
  if (auto* const functor = static_cast<grpc_completion_queue_functor*>(tag); functor != nullptr) {
    SayStarted<SuccessTag>(functor);
    SayStarted<StatusTag>(functor);
  }
  return real(call, ops, nops, tag, reserved);
}

namespace grpc::internal {

// Called where the count of what a call still waits for falls to zero, possibly by gRPC's own code.
void ServerCallbackCall::ScheduleOnDone(bool inline_ondone) {
  // In the call's place, for the thread that runs OnDone.
  class Scheduled final : public ServerCallbackCall {
   public:
    explicit Scheduled(ServerCallbackCall* call) : call_(call) {
      call_->callbacks_outstanding_.load(std::memory_order_acquire);  // what was counted down by instrumented code
      __tsan_release(this);
    }

   private:
    ServerReactor* reactor() override { return call_->reactor(); }

    void CallOnDone() override {
      __tsan_acquire(this);
      ServerCallbackCall* const call = call_;
      delete this;
      call->CallOnDone();
    }

    ServerCallbackCall* const call_;
  };

  static auto* const real =
      RealFunction<void(ServerCallbackCall*, bool)>("_ZN4grpc8internal18ServerCallbackCall14ScheduleOnDoneEb");
  real(new Scheduled(this), inline_ondone);
}

}  // namespace grpc::internal
