#include "base/io/listener_probe.h"

#include <netdb.h>
#include <poll.h>

#include <cerrno>
#include <memory>
#include <utility>

namespace ampd {
namespace {

std::string AddressBytes(int (*get)(int, sockaddr*, socklen_t*), int fd) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  return get(fd, reinterpret_cast<sockaddr*>(&storage), &size) == 0
             ? std::string(reinterpret_cast<const char*>(&storage), size)
             : "";
}

std::string HostToProbe(const std::string& host) {
  return host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : host;
}

std::unique_ptr<addrinfo, void (*)(addrinfo*)> Resolve(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    found = nullptr;
  }
  return {found, freeaddrinfo};
}

// Tells `peer` to expect the probe, until this object is destroyed.
class Expectation {
 public:
  Expectation(ProbePeer* peer, std::string address) : peer_(peer) { peer_->Expect(std::move(address)); }
  ~Expectation() { peer_->Expect(""); }
  Expectation(const Expectation&) = delete;
  Expectation& operator=(const Expectation&) = delete;

 private:
  ProbePeer* const peer_;
};

// Whether this error of connect has its cause on this host, such as a lack of memory, and so says nothing about the
// listener.
bool IsCausedByThisHost(int error) {
  return error == EADDRNOTAVAIL || error == ENETDOWN || error == ENETUNREACH || error == EHOSTUNREACH ||
         error == ENOBUFS || error == ENOMEM || error == EMFILE || error == ENFILE || error == EPERM;
}

}  // namespace

bool ProbePeer::IsProbe(int connection) {
  absl::MutexLock lock(&mutex_);
  const bool is_probe = !address_.empty() && AddressBytes(getpeername, connection) == address_;
  was_seen_ = was_seen_ || is_probe;
  return is_probe;
}

ProbeResult ProbeFrom(UniqueFd probe, const sockaddr* target, socklen_t target_size, const ProbedListener& listener,
                      absl::Duration timeout) {
  const int64_t before = listener.num_accepts();
  const Expectation expectation(listener.peer, AddressBytes(getsockname, probe.get()));
  // EAGAIN means that the queue of a Unix socket is full. It is not a failure here: the listener may be about to empty
  // it.
  if (connect(probe.get(), target, target_size) != 0 && errno != EINPROGRESS && errno != EAGAIN &&
      IsCausedByThisHost(errno)) {
    return ProbeResult::kUnknown;
  }
  // The listener accepts the connection and then closes it, which makes the probe's socket readable.
  pollfd closed = {probe.get(), POLLIN, 0};
  poll(&closed, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  return listener.peer->WasSeen()          ? ProbeResult::kAccepted
         : listener.num_accepts() > before ? ProbeResult::kOtherAccepted
                                           : ProbeResult::kNotAccepted;
}

ProbeResult ProbeAddress(const ListenAddress& address, const ProbedListener& listener, absl::Duration timeout) {
  const std::string host = HostToProbe(address.host);
  const auto target = Resolve(host, address.port);
  const auto own = Resolve(host, 0);
  if (target == nullptr || own == nullptr) {
    return ProbeResult::kUnknown;
  }
  UniqueFd probe(socket(target->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.ok() || bind(probe.get(), own->ai_addr, own->ai_addrlen) != 0) {
    return ProbeResult::kUnknown;
  }
  return ProbeFrom(std::move(probe), target->ai_addr, target->ai_addrlen, listener, timeout);
}

}  // namespace ampd
