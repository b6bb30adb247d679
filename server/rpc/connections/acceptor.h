#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/io/file.h"
#include "base/io/listen_address.h"
#include "base/io/listener_probe.h"

namespace ampd::server {

// Constants of both acceptors: how long Restart waits for a thread to end, which normally takes only a moment; and the
// shortest time between two warnings.
inline constexpr absl::Duration kEndOfAcceptorThread = absl::Seconds(5);
inline constexpr absl::Duration kBetweenAcceptorWarnings = absl::Seconds(10);

// Returns the number of connections that a process with this limit of file descriptors accepts; at least 16. The other
// descriptors are reserved for the journal, the stores, uploads and the HTTP listener.
int MaxConnections(int64_t max_descriptors);

// Returns the inode of an open socket, or 0 if the descriptor is not an open socket. The inode shows whether a
// descriptor number still belongs to the same socket.
uint64_t SocketInode(int fd);

// Accepts connections and passes them to `on_connection` for as long as the acceptor lives. Unlike gRPC 1.51's own
// listener, it keeps working after the process ran out of file descriptors, and it limits the number of connections.
//
// When max_connections are open, or no descriptor is left, the acceptor evicts the oldest connection that has sent only
// the HTTP/2 greeting, and accepts the new one. A normal client sends a call right after the greeting. If there is no
// such connection, the acceptor closes the new one, which the client sees as UNAVAILABLE. The acceptor is not notified
// when a connection closes, so it recognizes open connections by the inodes of their sockets. Thread-safe.
class Acceptor {
 public:
  struct Options {
    ListenAddress address;
    int max_connections = 1024;
    bool has_tls = false;  // Whether connections begin with a TLS handshake, which has more bytes.
    // Called with each new connection, whose socket is non-blocking, on the acceptor's thread.
    std::function<void(UniqueFd)> on_connection;
    // Called with a log line when the acceptor begins to refuse or close connections, at most once in ten seconds. May
    // be null.
    std::function<void(const std::string&)> log;
  };
  // Counts since the start of the acceptor.
  struct Counters {
    int64_t num_accepted = 0;
    int64_t num_refused = 0;  // Closed at once, because the limit was reached.
    int64_t num_evicted = 0;  // Closed in favour of a newer one.
    int64_t num_open = 0;     // An upper bound: closed connections count until the next check.
  };

  // Binds the address. UNAVAILABLE with reason ADDRESS_IN_USE or ADDRESS_NOT_BINDABLE if that fails.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Bind(Options options);
  ~Acceptor() { Stop(); }

  // Starts to accept. REQUIRES: called once.
  void Start();
  // Closes the listener; connections stay open. Idempotent. REQUIRES: not during Restart.
  void Stop();

  // Connects to the address, and waits until the listener has accepted a connection. Counters do not count these probes
  // as connections.
  ProbeResult Probe(absl::Duration timeout) { return ProbeAddress(bound_, probed_, timeout); }
  // Closes the listener and opens another one on the same address; connections stay open. DEADLINE_EXCEEDED if the
  // acceptor's thread is stuck; otherwise the errors of Bind. REQUIRES: called after Start, by one thread at a time.
  absl::Status Restart();
  // Returns the number of connections accepted so far, including probes and refused connections.
  int64_t num_accepts() const { return num_accepts_; }

  const ListenAddress& address() const { return bound_; }
  Counters counters() const;
  // Returns true if there is capacity for another connection, and no connection was refused or evicted since the last
  // call. REQUIRES: called by one thread at a time.
  bool HadRoom();

 private:
  struct Connection {
    int fd = -1;  // The receiver of the connection owns it, and may have closed it.
    uint64_t inode = 0;
  };

  Acceptor(Options options, ListenAddress bound, UniqueFd listener, UniqueFd wake);
  void Run();
  // Accepts all waiting connections. Returns false if descriptors have run out or accept failed; the caller then
  // retries after a pause.
  bool AcceptWaiting();
  void Take(UniqueFd connection);
  // Removes closed connections from the lists; does nothing if the last check was very recent.
  void ForgetClosed();
  // Closes the oldest connection that never made a call. Returns false if there is none.
  bool Evict();
  void Warn(const std::string& what);

  const Options options_;
  const ListenAddress bound_;
  ProbePeer probe_;
  const ProbedListener probed_{&probe_, [this] { return num_accepts_.load(); }};
  UniqueFd listener_;
  UniqueFd spare_;  // Kept in reserve; closed when a descriptor is needed and none is left.
  const UniqueFd wake_;
  std::atomic<bool> stopping_ = false;
  absl::Mutex mutex_;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;  // Whether the thread has ended.
  std::thread thread_;

  bool is_full() const { return silent_.size() + calling_.size() >= static_cast<size_t>(options_.max_connections); }

  int64_t num_closed_ = 0;  // Refused and evicted connections at the time of the last HadRoom.

  // Only the acceptor's thread uses this member and the next three.
  std::deque<Connection> silent_;                            // Oldest first. No call has arrived on these yet.
  std::deque<Connection> calling_;                           // A call has arrived on these.
  absl::Duration last_look_ = -absl::InfiniteDuration();     // Since boot.
  absl::Duration last_warning_ = -absl::InfiniteDuration();  // Since boot.

  std::atomic<int64_t> num_accepts_ = 0;
  std::atomic<int64_t> num_accepted_ = 0;
  std::atomic<int64_t> num_refused_ = 0;
  std::atomic<int64_t> num_evicted_ = 0;
  std::atomic<int64_t> num_open_ = 0;
};

}  // namespace ampd::server
