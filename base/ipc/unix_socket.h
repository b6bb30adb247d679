#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/io/file.h"

// Unix stream sockets. A path may be as long as the file system allows: the socket is bound and connected through its
// folder's descriptor, because sockaddr_un holds only 107 bytes.
namespace ampd {

// Listens at `path`, replacing an existing socket. The caller owns the file and removes it.
absl::StatusOr<UniqueFd> ListenUnix(const std::string& path);

// NOT_FOUND if there is no socket at `path`, UNAVAILABLE if nobody listens.
absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path);

// Blocks until somebody connects. CANCELLED after shutdown(2) of the listener.
absl::StatusOr<UniqueFd> AcceptUnix(int listener);

}  // namespace ampd
