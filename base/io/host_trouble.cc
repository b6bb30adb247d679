#include "base/io/host_trouble.h"

#include <cerrno>

namespace ampd {

bool IsTroubleOfTheHost(int error) {
  switch (error) {
    // Failures of disks and mounts.
    case EIO:
    case EREMOTEIO:
    case ENXIO:
    case ENODEV:
    case ENOMEDIUM:
    case EUCLEAN:
    case EBADMSG:
    case ESTALE:
    case EBUSY:
    case ENOLCK:
    case EKEYEXPIRED:
    // Shortage of resources that processes share.
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
    // Failures of the network path to a file server.
    case ETIMEDOUT:
    case ENETDOWN:
    case ENETUNREACH:
    case ENETRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case ENOTCONN:
    case ESHUTDOWN:
    case ENOLINK:
    case ECOMM:
    case EPIPE:
    case ENOBUFS:
      return true;
    default:
      return false;
  }
}

}  // namespace ampd
