#include "tests/base/http/raw_connection.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "absl/time/clock.h"

namespace ampd {

RawConnection::RawConnection(const ListenAddress& address) {
  sockaddr_in6 v6 = {};
  sockaddr_in v4 = {};
  const bool is_v6 = address.host.find(':') != std::string::npos;
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<uint16_t>(address.port));
  v4.sin_family = AF_INET;
  v4.sin_port = v6.sin6_port;
  inet_pton(is_v6 ? AF_INET6 : AF_INET, address.host.c_str(),
            is_v6 ? static_cast<void*>(&v6.sin6_addr) : static_cast<void*>(&v4.sin_addr));
  const auto* const name = is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  fd_ = UniqueFd(socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd_.get(), name, static_cast<socklen_t>(is_v6 ? sizeof(v6) : sizeof(v4))), 0) << address.ToString();
}

void RawConnection::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size <= 0) {
      return;  // The peer has closed the connection.
    }
    bytes.remove_prefix(static_cast<size_t>(size));
  }
}

std::string RawConnection::Read(std::string_view end, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  std::string text;
  char buffer[1 << 16];
  while (end.empty() || !std::string_view(text).ends_with(end)) {
    pollfd ready = {fd_.get(), POLLIN, 0};
    const int64_t millis = std::max<int64_t>(0, absl::ToInt64Milliseconds(deadline - absl::Now()));
    if (poll(&ready, 1, static_cast<int>(millis)) != 1) {
      ADD_FAILURE() << "nothing came in time, behind: " << text;
      return text;
    }
    const ssize_t size = read(fd_.get(), buffer, sizeof(buffer));
    if (size <= 0) {
      return text;
    }
    text.append(buffer, static_cast<size_t>(size));
  }
  return text;
}

bool RawConnection::IsClosed(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  char buffer[1 << 12];
  while (true) {
    pollfd ready = {fd_.get(), POLLIN, 0};
    const int64_t millis = std::max<int64_t>(0, absl::ToInt64Milliseconds(deadline - absl::Now()));
    if (poll(&ready, 1, static_cast<int>(millis)) != 1) {
      return false;
    }
    if (read(fd_.get(), buffer, sizeof(buffer)) <= 0) {
      return true;
    }
  }
}

}  // namespace ampd
