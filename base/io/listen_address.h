#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/file.h"

namespace ampd {

struct ListenAddress {
  std::string host;
  int port = 0;
  // "host:port", with IPv6 hosts in brackets.
  std::string ToString() const;
};

// Parses "host:port". Accepts only literal loopback addresses (127.0.0.0/8, [::1]; "localhost" means 127.0.0.1):
// neither server nor agent has TLS or authentication, and whoever reaches the ports controls all jobs.
// INVALID_ARGUMENT, with a message that says why.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view flag, std::string_view text);

// OK if a listener could bind the address now; otherwise UNAVAILABLE with reason ADDRESS_IN_USE or
// ADDRESS_NOT_BINDABLE.
absl::Status CheckBindable(const ListenAddress& address);

// Listens on a socket that neither blocks nor is inherited. Sets `bound` to the address with the actual port, also if 0
// asked for any. Errors as CheckBindable.
absl::StatusOr<UniqueFd> ListenOn(const ListenAddress& address, ListenAddress* bound);

// Connects and closes the connection at once. Returns whether somebody listens there.
bool Touch(const ListenAddress& address);

}  // namespace ampd
