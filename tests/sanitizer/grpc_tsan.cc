// Makes ThreadSanitizer (TSan) understand how gRPC hands work from thread to thread, in programs of a TSan build. The
// distribution's libgrpc and libgrpc++ are not instrumented: one thread starts operations on a call, a gRPC thread
// finishes them, and TSan does not see the queue between the two. But the code that creates and runs the tags of
// operations is in gRPC's headers, and therefore compiled into our programs. The dynamic linker calls the definitions
// below in place of the libraries' functions. The definitions report that the end of an operation comes after its
// start, and that a call's OnDone comes after everything that the call waited for. They report no order between two
// operations of one call, nor for what callbacks do: our own locks order that, and TSan checks them, as
// grpc_tsan_test.cc shows.
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include <atomic>

#include "grpcpp/support/callback_common.h"
#include "grpcpp/support/server_callback.h"
#include "tests/sanitizer/real_function.h"

namespace {

using ampd::sanitizer::RealFunction;

using Run = void (*)(grpc_completion_queue_functor*, int);

// Gives access to a private function in gRPC's headers, which completes an operation that has a callback. The function
// gets the tag of the operation. C++ lets only an explicit instantiation name a private member, so there is no other
// way to get the function's address.
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
  // If a callback finishes the operation, its tag begins with a pointer to the finishing function. SayStarted<Tag> acts
  // only if this function belongs to a tag of the kind Tag, so at most one of the two calls below acts. If the program
  // polls for the operation's end, the tag begins with another pointer, and neither call does anything.
  if (auto* const functor = static_cast<grpc_completion_queue_functor*>(tag); functor != nullptr) {
    SayStarted<SuccessTag>(functor);
    SayStarted<StatusTag>(functor);
  }
  return real(call, ops, nops, tag, reserved);
}

namespace grpc::internal {

// gRPC calls this function when an RPC has nothing left to wait for. It may do so from its own library, which is not
// instrumented.
void ServerCallbackCall::ScheduleOnDone(bool inline_ondone) {
  // Takes the place of the RPC's object while OnDone is scheduled. Reports to TSan that OnDone, which may run on
  // another thread, comes after the work of this thread.
  class Scheduled final : public ServerCallbackCall {
   public:
    explicit Scheduled(ServerCallbackCall* call) : call_(call) {
      call_->callbacks_outstanding_.load(std::memory_order_acquire);  // synchronizes with instrumented code
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
