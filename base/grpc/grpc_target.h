#pragma once

#include <string>

namespace ampd {

// Returns the name by which gRPC connects to a server of ampd. An address "host:port" or "unix:PATH" is returned
// unchanged, unless PATH is longer than 107 bytes, the limit of a socket's address. In that case this function opens
// the folder of PATH, and the name leads through its descriptor (/proc/self/fd/N), which stays open until the process
// ends.
std::string GrpcTarget(const std::string& address);

}  // namespace ampd
