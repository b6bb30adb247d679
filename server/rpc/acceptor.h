#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/io/file.h"
#include "base/io/listen_address.h"

namespace ampd::server {

// How many connections a process with so many file descriptors takes: the rest is kept for the journal, the stores,
// uploads and the HTTP listener. At least 16.
int MaxConnections(int64_t max_descriptors);

// Accepts connections and hands them on, for as long as it lives. Two things it does that gRPC 1.51's own listener does
// not: it goes on after the process ran out of file descriptors, and it has a bound.
//
// When max_connections are open, or no descriptor is left, a new connection takes the place of the oldest one that has
// sent no more than the greeting of HTTP/2: a client that is served sends a call right after it. Where there is no
// such connection the new one is closed, which its client sees as UNAVAILABLE. It tells open connections from closed
// ones by the inode of their sockets, since nobody tells it when they close. Thread-safe.
class Acceptor {
 public:
  struct Options {
    ListenAddress address;
    int max_connections = 1024;
    // Takes a connection; its socket does not block. On the acceptor's thread.
    std::function<void(UniqueFd)> on_connection;
    // A line for the log, when connections begin to be refused or closed, at most once in ten seconds. May be null.
    std::function<void(const std::string&)> log;
  };
  // Since the start.
  struct Counters {
    int64_t num_accepted = 0;
    int64_t num_refused = 0;  // closed at once: there was no room
    int64_t num_evicted = 0;  // closed in favour of a newer one
    int64_t num_open = 0;     // now, at most: as of the last time that they were looked at
  };

  // Binds the address. UNAVAILABLE with reason ADDRESS_IN_USE or ADDRESS_NOT_BINDABLE.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Bind(Options options);
  ~Acceptor() { Stop(); }

  // Begins to accept. REQUIRES: called once.
  void Start();
  // Closes the listener; connections stay as they are. Idempotent.
  void Stop();

  const ListenAddress& address() const { return bound_; }
  Counters counters() const;
  // Whether there is room for a connection, and none was closed for want of it since the last call. REQUIRES: called by
  // one thread at a time.
  bool HadRoom();

 private:
  struct Connection {
    int fd = -1;  // of whoever took it, perhaps closed by now
    uint64_t inode = 0;
  };

  Acceptor(Options options, ListenAddress bound, UniqueFd listener, UniqueFd wake);
  void Run();
  // Accepts what waits. False when descriptors have run out: then it is to be called again a little later.
  bool AcceptWaiting();
  void Take(UniqueFd connection);
  // Forgets connections that are closed; not more often than is worth it.
  void ForgetClosed();
  // Closes the oldest connection that never made a call. False: there is none.
  bool Evict();
  void Warn(const std::string& what);

  const Options options_;
  const ListenAddress bound_;
  UniqueFd listener_;
  UniqueFd spare_;  // is given up for a moment when no other descriptor is left
  const UniqueFd wake_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;

  bool is_full() const { return silent_.size() + calling_.size() >= static_cast<size_t>(options_.max_connections); }

  int64_t num_closed_ = 0;  // for want of room, by the last HadRoom

  // Of the thread.
  std::deque<Connection> silent_;                            // oldest first: no call of theirs was seen yet
  std::deque<Connection> calling_;                           // a call was seen
  absl::Duration last_look_ = -absl::InfiniteDuration();     // since boot
  absl::Duration last_warning_ = -absl::InfiniteDuration();  // since boot

  std::atomic<int64_t> num_accepted_ = 0;
  std::atomic<int64_t> num_refused_ = 0;
  std::atomic<int64_t> num_evicted_ = 0;
  std::atomic<int64_t> num_open_ = 0;
};

}  // namespace ampd::server
