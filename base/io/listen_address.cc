#include "base/io/listen_address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

absl::Status Refuse(std::string_view flag, std::string_view text, std::string_view why) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_LISTEN_ADDRESS",
               absl::StrCat(std::string(flag), " ", std::string(text), ": ", std::string(why)));
}

bool IsLoopback(const std::string& host) {
  in_addr v4 = {};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  in6_addr v6 = {};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress SocketAddressOf(const ListenAddress& address) {
  SocketAddress result;
  if (address.host.find(':') != std::string::npos) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(address.port));
    inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr);
    result.size = sizeof(*v6);
  } else {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(address.port));
    inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr);
    result.size = sizeof(*v4);
  }
  return result;
}

int PortOf(const SocketAddress& address) {
  return ntohs(address.storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

UniqueFd NewSocket(const SocketAddress& address) {
  return UniqueFd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

}  // namespace

std::string ListenAddress::ToString() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view flag, std::string_view text) {
  const size_t colon = text.rfind(':');
  ListenAddress address;
  if (colon == std::string_view::npos || !absl::SimpleAtoi(std::string(text.substr(colon + 1)), &address.port) ||
      address.port < 0 || address.port > 65535) {
    return Refuse(flag, text, "must be host:port with a port from 0 to 65535");
  }
  address.host = std::string(text.substr(0, colon));
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  if (address.host == "localhost") {
    address.host = "127.0.0.1";
  }
  std::array<unsigned char, sizeof(in6_addr)> bytes = {};
  if (inet_pton(AF_INET, address.host.c_str(), bytes.data()) != 1 &&
      inet_pton(AF_INET6, address.host.c_str(), bytes.data()) != 1) {
    return Refuse(flag, text, "the host must be an address such as 127.0.0.1, 0.0.0.0 or [::], or localhost");
  }
  return address;
}

absl::StatusOr<ListenAddress> ParseLoopbackAddress(std::string_view flag, std::string_view text,
                                                   std::string_view otherwise) {
  AMPD_ASSIGN_OR_RETURN(ListenAddress address, ParseListenAddress(flag, text));
  if (!IsLoopback(address.host)) {
    return Refuse(
        flag, text,
        absl::StrCat("without TLS only loopback addresses (127.0.0.1, [::1]) are accepted; ", std::string(otherwise)));
  }
  return address;
}

absl::Status CheckBindable(const ListenAddress& address) {
  ListenAddress bound;
  return ListenOn(address, &bound).status();
}

absl::StatusOr<UniqueFd> ListenOn(const ListenAddress& address, ListenAddress* bound) {
  SocketAddress wanted = SocketAddressOf(address);
  UniqueFd fd = NewSocket(wanted);
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (!fd.ok() || bind(fd.get(), wanted.get(), wanted.size) != 0 || listen(fd.get(), SOMAXCONN) != 0 ||
      fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&wanted.storage), &wanted.size) != 0) {
    const int error = errno;
    return Error(absl::StatusCode::kUnavailable, error == EADDRINUSE ? "ADDRESS_IN_USE" : "ADDRESS_NOT_BINDABLE",
                 absl::StrCat("cannot listen on ", address.ToString(), ": ", strerror(error)));
  }
  *bound = {address.host, PortOf(wanted)};
  return fd;
}

absl::StatusOr<UniqueFd> ConnectTo(const ListenAddress& address, absl::Duration timeout) {
  const SocketAddress to = SocketAddressOf(address);
  UniqueFd fd = NewSocket(to);
  const timeval limit = absl::ToTimeval(timeout);
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (!fd.ok() || connect(fd.get(), to.get(), to.size) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot connect to ", address.ToString(), ": ", strerror(errno)));
  }
  return fd;
}

bool Touch(const ListenAddress& address) {
  const SocketAddress to = SocketAddressOf(address);
  const UniqueFd fd = NewSocket(to);
  return fd.ok() && connect(fd.get(), to.get(), to.size) == 0;
}

}  // namespace ampd
