// That TSan understands gRPC's hand-overs through grpc_tsan.cc, and still finds what they do not order.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

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

constexpr int kCalls = 300;
constexpr int kReported = 66;  // TSan's exit status after a report

// Sends a message back. What it counts is guarded by nothing: gRPC runs one reaction of a call after another.
class Echo final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Echo(std::function<void()> on_read) : on_read_(std::move(on_read)) { StartRead(&message_); }

  void OnReadDone(bool /*ok*/) override {
    ++num_reactions_;
    on_read_();
    StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
  }

  void OnDone() override {
    ++num_reactions_;
    EXPECT_EQ(num_reactions_, 2);
    delete this;
  }

 private:
  std::function<void()> on_read_;
  grpc::ByteBuffer message_;
  int num_reactions_ = 0;
};

// A server of one method on a free port of the loopback, and a channel to it.
class EchoServer final : public grpc::CallbackGenericService {
 public:
  // ON_READ: called in the server for each message.
  explicit EchoServer(std::function<void()> on_read) : on_read_(std::move(on_read)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  }

  // One call with a message of its own; returns after the client's callback.
  void Call() const {
    struct State {
      grpc::ClientContext context;
      grpc::ByteBuffer request, response;
      bool is_done = false;
      absl::Notification done;
    } state;
    grpc::Slice slice(std::string(1000, 'x'));
    state.request = grpc::ByteBuffer(&slice, 1);
    grpc::GenericStub stub(channel_);
    stub.UnaryCall(&state.context, "/echo/Echo", grpc::StubOptions(), &state.request, &state.response,
                   [&state](const grpc::Status& status) {
                     EXPECT_TRUE(status.ok()) << status.error_message();
                     state.is_done = true;
                     state.done.Notify();
                   });
    state.done.WaitForNotification();
    EXPECT_TRUE(state.is_done);
    EXPECT_EQ(state.response.Length(), 1000u);
  }

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* /*context*/) override {
    return new Echo(on_read_);
  }

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

// A reaction and the thread that made the call write the same, certainly one after the other, but ordered by nothing.
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
