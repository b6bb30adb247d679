// Checks that TSan understands, through grpc_tsan.cc, how gRPC hands work to other threads. Also checks that TSan still
// reports two accesses if neither a lock nor such a hand-over orders them.
#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/client_callback.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace ampd::sanitizer {
namespace {

using google::protobuf::StringValue;

constexpr int kCalls = 300;
constexpr char kMethod[] = "/echo.Echo/Echo";
constexpr int kReported = 66;  // TSan's exit status after a report

// The server's side of a call. Echoes each message or, if `holds` is true, keeps the call open until it is cancelled.
// No lock guards its counter, because gRPC runs the reactions of a call one after another.
class Echo final : public grpc::ServerBidiReactor<StringValue, StringValue> {
 public:
  Echo(std::function<void()> on_read, bool holds) : on_read_(std::move(on_read)), holds_(holds) {
    StartRead(&message_);
  }

  void OnReadDone(bool /*ok*/) override {
    ++num_reactions_;
    on_read_();
    if (!holds_) {
      StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
    }
  }

  void OnCancel() override { Finish(grpc::Status::CANCELLED); }

  void OnDone() override {
    ++num_reactions_;
    EXPECT_EQ(num_reactions_, 2);
    delete this;
  }

 private:
  std::function<void()> on_read_;
  const bool holds_;
  StringValue message_;
  int num_reactions_ = 0;
};

// A server with one method on a free loopback port, and a channel to it. The method is registered in the same
// way as those of our services, so gRPC's handler template is compiled in this file.
class EchoServer final : public grpc::Service {
 public:
  // `on_read` is called in the server for each message. If `holds` is true, a call ends only when it is cancelled.
  explicit EchoServer(std::function<void()> on_read, bool holds = false) : on_read_(std::move(on_read)) {
    AddMethod(new grpc::internal::RpcServiceMethod(kMethod, grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodCallback(0, new grpc::internal::CallbackBidiHandler<StringValue, StringValue>(
                              [this, holds](grpc::CallbackServerContext*) { return new Echo(on_read_, holds); }));
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  }

  // Makes one call with a message of its own, and returns after the client's callback. If `cancel_after` is not null,
  // waits for that notification and then cancels the call.
  void Call(absl::Notification* cancel_after = nullptr) const {
    struct State {
      grpc::ClientContext context;
      StringValue request, response;
      grpc::Status status;
      bool is_done = false;
      absl::Notification done;
    } state;
    state.request.set_value(std::string(1000, 'x'));
    const grpc::internal::RpcMethod method(kMethod, grpc::internal::RpcMethod::NORMAL_RPC, channel_);
    grpc::internal::CallbackUnaryCall<StringValue, StringValue, StringValue, StringValue>(
        channel_.get(), method, &state.context, &state.request, &state.response, [&state](const grpc::Status& status) {
          state.status = status;
          state.is_done = true;
          state.done.Notify();
        });
    if (cancel_after != nullptr) {
      cancel_after->WaitForNotification();
      state.context.TryCancel();
    }
    state.done.WaitForNotification();
    EXPECT_TRUE(state.is_done);
    EXPECT_EQ(state.status.ok(), cancel_after == nullptr) << state.status.error_message();
    EXPECT_EQ(state.response.value(), state.status.ok() ? state.request.value() : "");
  }

 private:
  std::function<void()> on_read_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST(GrpcUnderTsan, ReactionsOfACall_AreNoRace) {
  std::atomic<int> num_read = 0;
  EchoServer server([&num_read] { num_read.fetch_add(1, std::memory_order_relaxed); });
  std::thread other([&server] {
    for (int i = 0; i < kCalls; ++i) {
      server.Call();
    }
  });
  for (int i = 0; i < kCalls; ++i) {
    server.Call();
  }
  other.join();
  EXPECT_EQ(num_read.load(), 2 * kCalls);
}

TEST(GrpcUnderTsan, DoneOfACancelledCall_IsNoRace) {
  std::unique_ptr<absl::Notification> read;
  EchoServer server([&read] { read->Notify(); }, /*holds=*/true);
  for (int i = 0; i < kCalls; ++i) {
    read = std::make_unique<absl::Notification>();
    server.Call(read.get());
  }
}

// A callback of the server and the thread that made the call write the same variable. The second write certainly comes
// later, but nothing that TSan sees orders the two writes, so TSan must report a race.
void WriteBesideAReaction() {
  int value = 0;
  std::atomic<bool> written = false;
  EchoServer server([&] {
    ++value;
    written.store(true, std::memory_order_relaxed);
  });
  std::thread caller([&server] { server.Call(); });
  while (!written.load(std::memory_order_relaxed)) {
    std::this_thread::yield();
  }
  ++value;
  caller.join();
}

TEST(GrpcUnderTsanDeathTest, WriteBesideAReaction_IsReported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        WriteBesideAReaction();
        std::exit(0);
      },
      testing::ExitedWithCode(kReported), "data race");
}

}  // namespace
}  // namespace ampd::sanitizer
