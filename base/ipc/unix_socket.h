#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/io/file.h"
#include "base/io/listener_probe.h"

// Unix stream sockets. sockaddr_un holds only 107 bytes, so the socket is bound and connected through its folder's
// descriptor. The path of the folder may then be as long as the file system allows.
namespace ampd {

// Listens on a socket at `path`, and replaces an existing socket file. The caller owns the socket file and removes it.
absl::StatusOr<UniqueFd> ListenUnix(const std::string& path);

// Connects to the socket at `path`. NOT_FOUND if there is none, UNAVAILABLE if no process listens on it.
absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path);

// Connects to this process's own listener at `path`, and waits until the listener has accepted a connection
// (base/io/listener_probe.h).
ProbeResult ProbeUnix(const std::string& path, const ProbedListener& listener, absl::Duration timeout);

// Waits for the next connection and returns it. CANCELLED after shutdown(2) of the listener.
absl::StatusOr<UniqueFd> AcceptUnix(int listener);

}  // namespace ampd
