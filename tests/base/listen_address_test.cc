#include "base/io/listen_address.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <tuple>

#include "base/error.h"
#include "base/io/file.h"

namespace ampd {
namespace {

using testing::HasSubstr;

// Listens on 127.0.0.1, on a port that the system chooses, and stores the address in `address`.
UniqueFd Listen(ListenAddress& address) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in bound = {};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(bound);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&bound), size), 0);
  EXPECT_EQ(listen(fd.get(), 1), 0);
  EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size), 0);
  address = {"127.0.0.1", ntohs(bound.sin_port)};
  return fd;
}

TEST(ListenAddressTest, LoopbackIsTakenInEachOfItsSpellings) {
  for (const auto& [text, host, printed] : {std::tuple{"127.0.0.1:80", "127.0.0.1", "127.0.0.1:80"},
                                            {"127.8.9.1:0", "127.8.9.1", "127.8.9.1:0"},
                                            {"localhost:65535", "127.0.0.1", "127.0.0.1:65535"},
                                            {"[::1]:7000", "::1", "[::1]:7000"}}) {
    const auto address = ParseListenAddress("--listen", text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->host, host);
    EXPECT_EQ(address->ToString(), printed);
  }
}

TEST(ListenAddressTest, WhatOthersCouldReachIsRefusedWhereOnlyLoopbackIsTaken) {
  for (const char* text : {"0.0.0.0:7000", "[::]:7000", "192.168.0.1:7000"}) {
    EXPECT_TRUE(ParseListenAddress("--listen", text).ok()) << text;
    const auto address = ParseLoopbackAddress("--listen", text, "give a certificate");
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(address.status().message(), HasSubstr("only loopback addresses")) << text;
    EXPECT_THAT(address.status().message(), HasSubstr("; give a certificate")) << text;
  }
  EXPECT_TRUE(ParseLoopbackAddress("--listen", "[::1]:1", "").ok());
}

TEST(ListenAddressTest, ANameIsNoAddress) {
  for (const char* text : {"example.com:7000", ":7000", "1.2.3:7000", "[::1:7000", "1.2.3.4.5:1"}) {
    const auto address = ParseListenAddress("--listen", text);
    EXPECT_EQ(ReasonOf(address.status()), "BAD_LISTEN_ADDRESS") << text;
    EXPECT_THAT(address.status().message(), HasSubstr("must be an address")) << text;
  }
}

TEST(ListenAddressTest, APortIsANumberOfSixteenBits) {
  for (const char* text : {"127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", "127.0.0.1:-1", ""}) {
    const auto address = ParseListenAddress("--listen", text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(address.status().message(), HasSubstr("a port from 0 to 65535")) << text;
  }
}

TEST(ListenAddressTest, AnAddressInUseIsNotBindableAndIsTouched) {
  ListenAddress address;
  UniqueFd listener = Listen(address);
  const absl::Status status = CheckBindable(address);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), "ADDRESS_IN_USE");
  EXPECT_TRUE(Touch(address));
  listener.Reset();
  EXPECT_TRUE(CheckBindable(address).ok());
  EXPECT_FALSE(Touch(address));
}

TEST(ListenAddressTest, AnAddressOfNoInterfaceIsNotBindable) {
  const absl::Status status = CheckBindable({"192.0.2.1", 0});  // Reserved for documentation.
  EXPECT_EQ(ReasonOf(status), "ADDRESS_NOT_BINDABLE");
}

}  // namespace
}  // namespace ampd
