#include "base/ipc/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <thread>

#include "ampd/v1/worker.pb.h"
#include "base/ipc/unix_socket.h"
#include "base/random.h"

namespace ampd {
namespace {

std::string Frames(const std::vector<std::string>& payloads) {
  std::string stream;
  for (const std::string& payload : payloads) {
    AppendFrame(payload, &stream);
  }
  return stream;
}

// Returns the payloads that the decoder returns before it needs more bytes. Fails the test on an error.
std::vector<std::string> Drain(FrameDecoder& decoder) {
  std::vector<std::string> payloads;
  for (;;) {
    auto next = decoder.Next();
    if (!next.ok() || !next->has_value()) {
      EXPECT_TRUE(next.ok()) << next.status();
      return payloads;
    }
    payloads.push_back(**next);
  }
}

TEST(FrameDecoder, GivesTheSamePayloadsHoweverTheStreamIsCut) {
  const std::vector<std::string> payloads = {"", "a", std::string(1000, 'b'), std::string("\0\1\2", 3)};
  const std::string stream = Frames(payloads);
  for (size_t piece = 1; piece < 40; ++piece) {
    FrameDecoder decoder;
    std::vector<std::string> got;
    for (size_t at = 0; at < stream.size(); at += piece) {
      decoder.Append(std::string_view(stream).substr(at, piece));
      for (std::string& payload : Drain(decoder)) {
        got.push_back(std::move(payload));
      }
    }
    EXPECT_EQ(got, payloads) << "pieces of " << piece;
  }
}

TEST(FrameDecoder, NoFlippedBitPasses) {
  const std::string stream = Frames({"some payload"});
  for (size_t bit = 0; bit < stream.size() * 8; ++bit) {
    std::string damaged = stream;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    FrameDecoder decoder;
    decoder.Append(damaged);
    const auto next = decoder.Next();
    // If the flipped bit made the length larger, the decoder waits for more bytes; otherwise it returns an error. It
    // never returns the payload.
    EXPECT_FALSE(next.ok() && next->has_value()) << "bit " << bit;
  }
}

TEST(FrameDecoder, RefusesALengthOverTheLimitBeforeItIsThere) {
  FrameDecoder decoder;
  decoder.Append(std::string("\xff\xff\xff\xff\0\0\0\0", 8));
  EXPECT_EQ(decoder.Next().status().code(), absl::StatusCode::kDataLoss);
}

class SocketPair : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    left_ = UniqueFd(fds[0]);
    right_ = UniqueFd(fds[1]);
  }
  UniqueFd left_;
  UniqueFd right_;
};

TEST_F(SocketPair, FramesOfAnySizePass) {
  v1::Device big;
  big.set_name(std::string(3 << 20, 'x'));
  std::thread writer([&] {
    EXPECT_TRUE(WriteFrame(left_.get(), v1::Device()).ok());
    EXPECT_TRUE(WriteFrame(left_.get(), big).ok());
    left_.Reset();
  });
  EXPECT_EQ(**ReadFrame(right_.get()), "");
  EXPECT_EQ(**ReadFrame(right_.get()), big.SerializeAsString());
  EXPECT_FALSE(ReadFrame(right_.get())->has_value());
  writer.join();
}

TEST_F(SocketPair, AStreamThatEndsInsideAFrameIsDataLoss) {
  const std::string stream = Frames({"payload"});
  ASSERT_TRUE(WriteAll(left_.get(), std::string_view(stream).substr(0, stream.size() - 1)).ok());
  left_.Reset();
  EXPECT_EQ(ReadFrame(right_.get()).status().code(), absl::StatusCode::kDataLoss);
}

TEST(UnixSocket, ConnectsThroughAPathLongerThanAnAddress) {
  std::string folder = testing::TempDir() + "/" + RandomId(SystemRandom(), 12);
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  for (int i = 0; i < 3; ++i) {
    folder += "/" + std::string(60, 'd');
    ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  }
  const std::string path = folder + "/s.sock";
  EXPECT_EQ(ConnectUnix(path).status().code(), absl::StatusCode::kNotFound);
  auto listener = ListenUnix(path);
  ASSERT_TRUE(listener.ok()) << listener.status();
  auto client = ConnectUnix(path);
  ASSERT_TRUE(client.ok()) << client.status();
  auto served = AcceptUnix(listener->get());
  ASSERT_TRUE(served.ok());
  ASSERT_TRUE(WriteFrame(client->get(), v1::Device()).ok());
  EXPECT_EQ(**ReadFrame(served->get()), "");
  listener->Reset();
  EXPECT_EQ(ConnectUnix(path).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ampd
