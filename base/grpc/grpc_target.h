#pragma once

#include <string>

namespace ampd {

// Returns the name by which gRPC connects to a server of ampd: "host:port" as it is, and "unix:PATH" for a socket. A
// path may be as long as the file system allows: if it is longer than the 107 bytes of a socket's address, the name
// leads through the descriptor of its folder, which then stays open for as long as the process lives.
std::string GrpcTarget(const std::string& address);

}  // namespace ampd
