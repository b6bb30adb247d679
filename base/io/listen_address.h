#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/io/file.h"

namespace ampd {

struct ListenAddress {
  std::string host;
  int port = 0;
  bool operator==(const ListenAddress& other) const = default;
  // "host:port", with IPv6 hosts in brackets.
  std::string ToString() const;
};

// Parses "host:port". Accepts only literal addresses; "localhost" means 127.0.0.1. Otherwise returns INVALID_ARGUMENT,
// with a message that names `flag` and the reason.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view flag, std::string_view text);

// Parses an address like ParseListenAddress, but accepts only loopback addresses (127.0.0.0/8, [::1]). Use it for a
// listener without TLS, which other hosts must not reach. For any other address, the error message ends with
// `otherwise`, which says what the user can do.
absl::StatusOr<ListenAddress> ParseLoopbackAddress(std::string_view flag, std::string_view text,
                                                   std::string_view otherwise);

// Returns OK if a listener could bind the address now, otherwise UNAVAILABLE with reason ADDRESS_IN_USE or
// ADDRESS_NOT_BINDABLE.
absl::Status CheckBindable(const ListenAddress& address);

// Binds a TCP socket to the address and listens on it. The socket does not block and is not inherited by child
// processes. Sets `bound` to the address with the actual port, which differs if port 0 asked for any free one. Returns
// the same errors as CheckBindable.
absl::StatusOr<UniqueFd> ListenOn(const ListenAddress& address, ListenAddress* bound);

// Connects to the address. An address of all interfaces, such as 0.0.0.0, means this host. `timeout` limits the
// connecting, and then each read and each write of the returned socket. UNAVAILABLE if nobody listens there.
absl::StatusOr<UniqueFd> ConnectTo(const ListenAddress& address, absl::Duration timeout);

// Returns whether a process listens at the address: connects, and closes the connection at once.
bool Touch(const ListenAddress& address);

}  // namespace ampd
