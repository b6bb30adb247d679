#include "server/rpc/connections/acceptor.h"

#include <fcntl.h>
#include <linux/tcp.h>  // glibc's netinet/tcp.h lacks tcpi_bytes_received
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "base/timed_wait.h"

namespace ampd::server {
namespace {

// A connection from which fewer bytes than this have arrived has sent only its HTTP/2 greeting, and no call yet. The
// smallest greeting (preface, empty SETTINGS frame, acknowledgement) has 42 bytes. The greeting of real clients has
// about 100 bytes; with their first call, more than 200 bytes have arrived.
constexpr uint64_t kGreetingBytes = 160;
// Replaces kGreetingBytes for a connection with TLS. If fewer bytes have arrived, the connection has at most begun its
// handshake. A client's hello has about 600 bytes. Together with its certificate, its signature and its first call,
// more than 1,000 bytes arrive.
constexpr uint64_t kHandshakeBytes = 1'000;
// The pause before the acceptor retries after it ran out of descriptors.
constexpr int kRetryMillis = 50;
// The time between checks for closed connections: kLookMillis while the acceptor is idle, and never less than
// kBetweenLooks.
constexpr int kLookMillis = 1000;
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(50);
// If sent data stays unacknowledged for this long, the connection ends. gRPC's own listeners use the same value.
constexpr unsigned kUserTimeoutMillis = 10'000;

UniqueFd Spare() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

uint64_t BytesReceived(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

// Whether this error of accept means that the process or the system is out of descriptors or memory.
bool IsShortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

absl::StatusOr<UniqueFd> Listen(const ListenAddress& address, ListenAddress* bound) {
  AMPD_ASSIGN_OR_RETURN(UniqueFd listener, ListenOn(address, bound));
  const int on = 1;
  setsockopt(listener.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(listener.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMillis, sizeof(kUserTimeoutMillis));
  return listener;
}

}  // namespace

uint64_t SocketInode(int fd) {
  struct stat status = {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

int MaxConnections(int64_t max_descriptors) {
  const int64_t kept = std::clamp<int64_t>(max_descriptors / 4, 64, 1024);
  return static_cast<int>(std::clamp<int64_t>(max_descriptors - kept, 16, 1 << 20));
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Bind(Options options) {
  ListenAddress bound;
  AMPD_ASSIGN_OR_RETURN(UniqueFd listener, Listen(options.address, &bound));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC));
  if (!wake.ok()) {
    return ErrnoError(errno, "eventfd");
  }
  return std::unique_ptr<Acceptor>(new Acceptor(std::move(options), bound, std::move(listener), std::move(wake)));
}

Acceptor::Acceptor(Options options, ListenAddress bound, UniqueFd listener, UniqueFd wake)
    : options_(std::move(options)),
      bound_(std::move(bound)),
      listener_(std::move(listener)),
      spare_(Spare()),
      wake_(std::move(wake)) {}

void Acceptor::Start() {
  thread_ = std::thread([this] {
    Run();
    absl::MutexLock lock(&mutex_);
    has_ended_ = true;
  });
}

absl::Status Acceptor::Restart() {
  stopping_ = true;
  eventfd_write(wake_.get(), 1);
  {
    absl::MutexLock lock(&mutex_);
    if (!AwaitFor(mutex_, absl::Condition(&has_ended_), kEndOfAcceptorThread)) {
      return absl::DeadlineExceededError("its thread is stuck");
    }
    has_ended_ = false;
  }
  thread_.join();
  listener_.Reset();
  ListenAddress bound;
  AMPD_ASSIGN_OR_RETURN(listener_, Listen(bound_, &bound));
  eventfd_t ignored = 0;
  eventfd_read(wake_.get(), &ignored);
  stopping_ = false;
  Start();
  return absl::OkStatus();
}

void Acceptor::Stop() {
  if (!stopping_.exchange(true)) {
    eventfd_write(wake_.get(), 1);
  }
  if (thread_.joinable()) {
    thread_.join();
  }
  listener_.Reset();
}

Acceptor::Counters Acceptor::counters() const { return {num_accepted_, num_refused_, num_evicted_, num_open_}; }

bool Acceptor::HadRoom() {
  const Counters now = counters();
  const int64_t num_closed = now.num_refused + now.num_evicted;
  return std::exchange(num_closed_, num_closed) == num_closed && now.num_open < options_.max_connections;
}

void Acceptor::Run() {
  bool is_short = false;
  while (!stopping_) {
    // If descriptors have run out, only `wake_` is polled. The listener would stay readable because of the waiting
    // connection, so poll would return at once and the retries would have no pause.
    pollfd waited[] = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    const int num_ready = poll(waited, is_short ? 1 : 2, is_short ? kRetryMillis : kLookMillis);
    if (num_ready == 0) {
      ForgetClosed();
    }
    if (!stopping_) {
      is_short = !AcceptWaiting();
    }
  }
}

bool Acceptor::AcceptWaiting() {
  while (true) {
    UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.ok()) {
      ++num_accepts_;
      if (probe_.IsProbe(connection.get())) {
        continue;
      }
      spare_ = spare_.ok() ? std::move(spare_) : Spare();
      Take(std::move(connection));
    } else if (IsShortage(errno)) {
      Warn("no file descriptor is left for a new connection");
      Evict();
      return false;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return errno == EAGAIN;  // All other errors, such as EPERM of a firewall, are retried a little later.
    }
  }
}

void Acceptor::Take(UniqueFd connection) {
  if (is_full()) {
    ForgetClosed();
  }
  if (is_full()) {
    Warn(absl::StrCat("there are ", options_.max_connections, " connections, as many as the server takes"));
    if (!Evict()) {
      ++num_refused_;
      return;
    }
  }
  ++num_accepted_;
  silent_.push_back({connection.get(), SocketInode(connection.get())});
  num_open_ = static_cast<int64_t>(silent_.size() + calling_.size());
  options_.on_connection(std::move(connection));
}

void Acceptor::ForgetClosed() {
  const absl::Duration now = SystemClock().SinceBoot();
  if (now - last_look_ < kBetweenLooks) {
    return;
  }
  last_look_ = now;
  for (auto* connections : {&silent_, &calling_}) {
    std::erase_if(*connections, [](const Connection& one) { return SocketInode(one.fd) != one.inode; });
  }
  num_open_ = static_cast<int64_t>(silent_.size() + calling_.size());
}

bool Acceptor::Evict() {
  bool evicted = false;
  spare_.Reset();  // Duplicating a descriptor below needs a free one.
  while (!silent_.empty() && !evicted) {
    const Connection one = silent_.front();
    silent_.pop_front();
    // Duplicates the descriptor, so that all checks below are about one socket. The original descriptor may be closed
    // and its number reused meanwhile.
    const UniqueFd copy(fcntl(one.fd, F_DUPFD_CLOEXEC, 0));
    if (!copy.ok() && IsShortage(errno)) {
      silent_.push_front(one);
      break;
    }
    if (!copy.ok() || SocketInode(copy.get()) != one.inode) {
      continue;  // The connection has been closed.
    }
    if (BytesReceived(copy.get()) > (options_.has_tls ? kHandshakeBytes : kGreetingBytes)) {
      calling_.push_back(one);
      continue;
    }
    shutdown(copy.get(), SHUT_RDWR);
    evicted = true;
    ++num_evicted_;
  }
  spare_ = Spare();
  return evicted;
}

void Acceptor::Warn(const std::string& what) {
  const absl::Duration now = SystemClock().SinceBoot();
  if (options_.log && now - last_warning_ >= kBetweenAcceptorWarnings) {
    last_warning_ = now;
    options_.log(absl::StrCat(what, "; new ones take the place of those that never made a call, or are closed"));
  }
}

}  // namespace ampd::server
