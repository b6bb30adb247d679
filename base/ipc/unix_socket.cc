#include "base/ipc/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

// Makes a socket address for `path` that fits into sockaddr_un: a path through the descriptor `folder`, which this
// function opens. The address is valid while `folder` is open.
absl::StatusOr<sockaddr_un> AddressOf(const std::string& path, UniqueFd& folder) {
  const std::filesystem::path full(path);
  const std::string parent = full.parent_path().empty() ? "." : full.parent_path().string();
  folder = UniqueFd(open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.ok()) {
    return ErrnoError(errno, "open the socket's folder");
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = absl::StrCat("/proc/self/fd/", folder.get(), "/", full.filename().string());
  if (name.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("the socket's file name is too long: ", full.filename().string()));
  }
  name.copy(address.sun_path, name.size());
  return address;
}

absl::StatusOr<UniqueFd> StreamSocket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.ok()) {
    return ErrnoError(errno, "socket");
  }
  return fd;
}

}  // namespace

absl::StatusOr<UniqueFd> ListenUnix(const std::string& path) {
  UniqueFd folder;
  AMPD_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path, folder));
  AMPD_ASSIGN_OR_RETURN(UniqueFd fd, StreamSocket());
  unlink(path.c_str());
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoError(errno, "bind");
  }
  if (listen(fd.get(), 16) != 0) {
    return ErrnoError(errno, "listen");
  }
  return fd;
}

absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path) {
  UniqueFd folder;
  AMPD_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path, folder));
  AMPD_ASSIGN_OR_RETURN(UniqueFd fd, StreamSocket());
  while (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno != EINTR) {
      return ErrnoError(errno, "connect");
    }
  }
  return fd;
}

ProbeResult ProbeUnix(const std::string& path, const ProbedListener& listener, absl::Duration timeout) {
  UniqueFd folder;
  const absl::StatusOr<sockaddr_un> address = AddressOf(path, folder);
  UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Binding to an address without a name makes the kernel choose a name that no other socket has.
  sockaddr_un own{};
  own.sun_family = AF_UNIX;
  if (!address.ok() || !probe.ok() ||
      bind(probe.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(sa_family_t)) != 0) {
    return absl::IsNotFound(address.status()) ? ProbeResult::kNotAccepted : ProbeResult::kUnknown;
  }
  return ProbeFrom(std::move(probe), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address), listener, timeout);
}

absl::StatusOr<UniqueFd> AcceptUnix(int listener) {
  for (;;) {
    UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.ok()) {
      return fd;
    }
    if (errno == EINVAL) {
      return absl::CancelledError("the listener is shut down");
    }
    if (errno != EINTR && errno != ECONNABORTED) {
      return ErrnoError(errno, "accept");
    }
  }
}

}  // namespace ampd
