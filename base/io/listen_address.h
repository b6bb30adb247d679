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
  // "host:port", IPv6 in brackets.
  std::string ToString() const;
};

// Parses "host:port". Only literal loopback addresses are taken (127.0.0.0/8, [::1]; "localhost" means 127.0.0.1):
// neither server nor agent has TLS or authentication, and who reaches the ports controls all jobs. INVALID_ARGUMENT
// says why.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view flag, std::string_view text);

// OK when a listener could bind the address now; UNAVAILABLE with reason ADDRESS_IN_USE or ADDRESS_NOT_BINDABLE.
absl::Status CheckBindable(const ListenAddress& address);

// A listener, bound to a socket that neither blocks nor is inherited; its port is `bound->port`, also where 0 asked for
// any. Errors as CheckBindable.
absl::StatusOr<UniqueFd> ListenOn(const ListenAddress& address, ListenAddress* bound);

// Connects, and hangs up at once. Returns whether somebody listens there.
bool Touch(const ListenAddress& address);

}  // namespace ampd
