#pragma once

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/io/file.h"

namespace ampd {

// Returns whether the descriptor is a socket that listens on this TCP port of IPv4 or, if `port` is 0, a Unix socket
// that listens on any path.
inline bool ListensOn(int fd, int port) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  sockaddr_storage storage = {};
  socklen_t address_size = sizeof(storage);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &address_size) != 0) {
    return false;
  }
  return port == 0 ? storage.ss_family == AF_UNIX
                   : storage.ss_family == AF_INET && ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port) == port;
}

// Breaks the listening socket of a process (possibly this one) by shutting it down, so that it never accepts again.
// Returns false if there is no such socket, or if the system does not let this process reach it.
inline bool BreakListener(pid_t pid, int port) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  DIR* const folder = opendir(absl::StrCat("/proc/", pid, "/fd").c_str());
  bool is_broken = false;
  for (const dirent* entry = nullptr; folder != nullptr && (entry = readdir(folder)) != nullptr;) {
    const int number = entry->d_name[0] == '.' ? -1 : std::atoi(entry->d_name);
    const UniqueFd copy(number < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), number, 0)));
    if (copy.ok() && ListensOn(copy.get(), port)) {
      is_broken = shutdown(copy.get(), SHUT_RDWR) == 0;
    }
  }
  if (folder != nullptr) {
    closedir(folder);
  }
  return is_broken;
}

}  // namespace ampd
