#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/io/file.h"

namespace ampd {

// Reserves a loopback port for a server that a test starts several times. While this object exists, the system does not
// give the port to a program that asks for any free port. A server that reuses addresses, as gRPC servers do, can still
// bind the port by its number. The object's own socket is bound, but never listens.
class ReservedPort {
 public:
  ReservedPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(fd_.get(), generic, size) == 0 && getsockname(fd_.get(), generic, &size) == 0) {
      number_ = ntohs(address.sin_port);
    }
  }
  // The port's number, or 0 if no port was free.
  int number() const { return number_; }

 private:
  UniqueFd fd_;
  int number_ = 0;
};

}  // namespace ampd
