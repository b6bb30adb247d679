// In a build with ThreadSanitizer (TSan), reports to it how gRPC hands work from thread to thread. The distribution's
// libgrpc and libgrpc++ are not instrumented: one thread starts operations on a call, a gRPC thread finishes them, and
// TSan does not see the queue between the two. But gRPC's headers make and run the tag of the operations, so that code
// is part of our programs. The dynamic linker prefers the definitions below to the libraries'. They report that
// finishing a tag comes after starting it, and that a call's OnDone comes after everything counted in the call. They
// report nothing about two tags of one call or about the work of the callbacks: those use our own locks, which TSan
// checks. grpc_tsan_test.cc checks that.
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include <atomic>

#include "grpcpp/support/callback_common.h"
#include "grpcpp/support/server_callback.h"
#include "tests/sanitizer/real_function.h"

namespace {

using ampd::sanitizer::RealFunction;

using Run = void (*)(grpc_completion_queue_functor*, int);

// Gives access to a private function of gRPC's headers, which finishes a tag. Only an explicit instantiation may name
// a private member, so this is the only way to get its address.
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
  // A tag that gRPC runs begins with the pointer to its function, by which SayStarted knows its kind. A tag that is
  // polled for begins with another pointer, so it matches neither kind.
  if (auto* const functor = static_cast<grpc_completion_queue_functor*>(tag); functor != nullptr) {
    SayStarted<SuccessTag>(functor);
    SayStarted<StatusTag>(functor);
  }
  return real(call, ops, nops, tag, reserved);
}

namespace grpc::internal {

// gRPC calls this function when nothing is left that the call waits for. The caller may be gRPC's own code.
void ServerCallbackCall::ScheduleOnDone(bool inline_ondone) {
  // Takes the place of the call, to report to TSan the order between this thread and the one that runs OnDone.
  class Scheduled final : public ServerCallbackCall {
   public:
    explicit Scheduled(ServerCallbackCall* call) : call_(call) {
      call_->callbacks_outstanding_.load(std::memory_order_acquire);  // see what instrumented code did
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
