#include "server/rpc/connections/socket_acceptor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/ipc/unix_socket.h"
#include "base/status_macros.h"
#include "base/timed_wait.h"

namespace ampd::server {
namespace {

constexpr int kWaitMillis = 500;
constexpr int kShortageMillis = 50;

// Returns the user at the other end of a connected socket. The kernel recorded the user when the peer connected, so the
// peer can't forge it.
LocalPeer LocalPeerOf(int fd) {
  LocalPeer peer;
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    peer.uid = static_cast<uid_t>(-1);  // No user has this uid.
    return peer;
  }
  peer.uid = credentials.uid;
  size = 0;
  getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, nullptr, &size);  // Stores the needed size in `size`.
  peer.groups.resize(size / sizeof(gid_t));
  if (size > 0 && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, peer.groups.data(), &size) != 0) {
    peer.groups.clear();
  }
  peer.groups.push_back(credentials.gid);
  return peer;
}

absl::Status SocketError(const std::string& path, const absl::Status& status) {
  return Error(absl::StatusCode::kUnavailable, "ADDRESS_NOT_BINDABLE",
               absl::StrCat("cannot listen on the socket ", path, ": ", std::string(status.message())));
}

bool IsAdmin(const Identity& identity) { return identity.has(Right::kAdminister); }

}  // namespace

absl::StatusOr<UniqueFd> SocketAcceptor::Listen(const Options& options) {
  struct stat existing = {};
  if (lstat(options.path.c_str(), &existing) == 0) {
    if (!S_ISSOCK(existing.st_mode)) {
      return SocketError(options.path, absl::AlreadyExistsError("there is a file of this name that is no socket"));
    }
    if (ConnectUnix(options.path).ok()) {
      return Error(absl::StatusCode::kUnavailable, "ADDRESS_IN_USE",
                   absl::StrCat("another process listens on the socket ", options.path));
    }
  }
  absl::StatusOr<UniqueFd> listener = ListenUnix(options.path);
  if (!listener.ok()) {
    return SocketError(options.path, listener.status());
  }
  if (chmod(options.path.c_str(), options.mode) != 0 || listen(listener->get(), SOMAXCONN) != 0 ||
      fcntl(listener->get(), F_SETFL, O_NONBLOCK) != 0) {
    return SocketError(options.path, ErrnoError(errno, "prepare"));
  }
  return listener;
}

absl::StatusOr<std::unique_ptr<SocketAcceptor>> SocketAcceptor::Bind(Options options) {
  AMPD_ASSIGN_OR_RETURN(UniqueFd listener, Listen(options));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC));
  if (!wake.ok()) {
    return SocketError(options.path, ErrnoError(errno, "eventfd"));
  }
  return std::unique_ptr<SocketAcceptor>(new SocketAcceptor(std::move(options), std::move(listener), std::move(wake)));
}

SocketAcceptor::SocketAcceptor(Options options, UniqueFd listener, UniqueFd wake)
    : options_(std::move(options)), listener_(std::move(listener)), wake_(std::move(wake)) {}

void SocketAcceptor::Start() {
  thread_ = std::thread([this] {
    Run();
    absl::MutexLock lock(&mutex_);
    has_ended_ = true;
  });
}

ProbeResult SocketAcceptor::Probe(absl::Duration timeout) {
  return ProbeUnix(options_.path, {&probe_, [this] { return num_accepts_.load(); }}, timeout);
}

absl::Status SocketAcceptor::Restart() {
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
  listener_.Reset();  // Closed first, because Listen refuses a path that is in use.
  AMPD_ASSIGN_OR_RETURN(listener_, Listen(options_));
  eventfd_t ignored = 0;
  eventfd_read(wake_.get(), &ignored);
  stopping_ = false;
  Start();
  return absl::OkStatus();
}

void SocketAcceptor::Stop() {
  if (stopping_.exchange(true)) {
    return;
  }
  eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) {
    thread_.join();
  }
  listener_.Reset();
  unlink(options_.path.c_str());
}

Acceptor::Counters SocketAcceptor::counters() const { return {num_accepted_, num_refused_, num_evicted_, num_open_}; }

bool SocketAcceptor::HadRoom() {
  const bool was_full = was_full_.exchange(false);
  return !was_full && num_open_ < options_.max_connections;
}

void SocketAcceptor::ReportFull(const std::string& why) {
  was_full_ = true;
  const absl::Duration now = SystemClock().SinceBoot();
  if (options_.log && now - last_warning_ >= kBetweenAcceptorWarnings) {
    last_warning_ = now;
    options_.log(absl::StrCat(why, "; new connections to the socket are closed, or wait"));
  }
}

void SocketAcceptor::Run() {
  bool is_short = false;
  while (!stopping_) {
    std::vector<pollfd> waited = {{wake_.get(), POLLIN, 0}};
    for (const Silent& one : silent_) {
      waited.push_back({one.fd.get(), POLLIN, 0});
    }
    if (!is_short) {  // Without descriptors, the listener would stay readable, and poll would not wait.
      waited.push_back({listener_.get(), POLLIN, 0});
    }
    poll(waited.data(), waited.size(), is_short ? kShortageMillis : kWaitMillis);
    std::deque<bool> is_readable;
    for (size_t i = 1; i <= silent_.size(); ++i) {
      is_readable.push_back(waited[i].revents != 0);
    }
    Serve(is_readable);
    ForgetClosed();
    is_short = !stopping_ && !AcceptWaiting();
  }
}

bool SocketAcceptor::AcceptWaiting() {
  while (true) {
    UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.ok()) {
      ++num_accepts_;
      if (!probe_.IsProbe(connection.get())) {
        Take(std::move(connection));
      }
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      ReportFull("no file descriptor is left for a new connection");
      return false;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return errno == EAGAIN;
    }
  }
}

void SocketAcceptor::Take(UniqueFd connection) {
  Peer from{.local = LocalPeerOf(connection.get())};
  from.identity = options_.grants->Of(from.local);
  const auto of_others = static_cast<int64_t>(
      std::count_if(silent_.begin(), silent_.end(), [](const Silent& one) { return !IsAdmin(one.peer.identity); }) +
      std::count_if(passed_.begin(), passed_.end(), [](const Passed& one) { return !one.is_admin; }));
  const bool is_full = silent_.size() + passed_.size() >= static_cast<size_t>(options_.max_connections);
  if (is_full || (!IsAdmin(from.identity) && of_others >= int64_t{3} * options_.max_connections / 4)) {
    ++num_refused_;
    ReportFull(absl::StrCat("there are ", silent_.size() + passed_.size(),
                            " connections on the socket, as many as the "
                            "server takes from these users"));
    return;
  }
  ++num_accepted_;
  silent_.push_back({std::move(connection), std::move(from), SystemClock().SinceBoot()});
}

void SocketAcceptor::Serve(const std::deque<bool>& is_readable) {
  const absl::Duration now = SystemClock().SinceBoot();
  std::deque<Silent> still_silent;
  for (size_t i = 0; i < silent_.size(); ++i) {
    Silent& one = silent_[i];
    if (is_readable[i]) {
      passed_.push_back({one.fd.get(), SocketInode(one.fd.get()), IsAdmin(one.peer.identity)});
      options_.on_connection(std::move(one.fd), one.peer);
    } else if (now - one.accepted < kFirstBytes) {
      still_silent.push_back(std::move(one));
    } else {
      ++num_evicted_;
    }
  }
  silent_ = std::move(still_silent);
}

void SocketAcceptor::ForgetClosed() {
  std::erase_if(passed_, [](const Passed& one) { return SocketInode(one.fd) != one.inode; });
  num_open_ = static_cast<int64_t>(silent_.size() + passed_.size());
}

}  // namespace ampd::server
