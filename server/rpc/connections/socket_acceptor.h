#pragma once

#include <sys/types.h>

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
#include "base/io/listener_probe.h"
#include "server/access/grants.h"
#include "server/rpc/connections/acceptor.h"
#include "server/rpc/connections/peers.h"

namespace ampd::server {

// Accepts connections on a Unix socket. Passes each on with the local user at its other end, whom the kernel reports. A
// connection is passed on when its first bytes have arrived; if none arrive for kFirstBytes, it is closed. If
// max_connections are open, a new connection is closed, which its client sees as UNAVAILABLE. Users who are not admins
// may together use at most three quarters of the connections, so that an admin always gets through. Thread-safe.
class SocketAcceptor {
 public:
  static constexpr absl::Duration kFirstBytes = absl::Seconds(5);

  struct Options {
    std::string path;
    mode_t mode = 0600;  // Mode of the socket's file: decides who may connect.
    int max_connections = 1024;
    const Grants* grants = nullptr;
    // Called with each connection, whose socket is non-blocking, and its peer, on the acceptor's thread.
    std::function<void(UniqueFd, const Peer&)> on_connection;
    std::function<void(const std::string&)> log;  // See Acceptor::Options::log.
  };

  // Creates the socket's file. Replaces a file that a killed server left behind. UNAVAILABLE with reason ADDRESS_IN_USE
  // if another process listens on the socket, or with ADDRESS_NOT_BINDABLE if the file can't be created.
  static absl::StatusOr<std::unique_ptr<SocketAcceptor>> Bind(Options options);
  ~SocketAcceptor() { Stop(); }

  // Starts to accept. REQUIRES: called once.
  void Start();
  // Closes the listener and removes its file; connections stay open. Idempotent. REQUIRES: not during Restart.
  void Stop();

  // Acceptor describes these functions. Restart also creates the socket's file again if somebody deleted it.
  ProbeResult Probe(absl::Duration timeout);
  absl::Status Restart();
  int64_t num_accepts() const { return num_accepts_; }
  const std::string& path() const { return options_.path; }

  Acceptor::Counters counters() const;
  // Returns true if there is capacity for another connection, and no connection was closed or had to wait since the
  // last call because capacity was missing.
  bool HadRoom();

 private:
  // A connection that has sent nothing yet.
  struct Silent {
    UniqueFd fd;
    Peer peer;
    absl::Duration accepted;  // Since boot.
  };
  // A connection that was passed on. Its receiver owns the descriptor and may have closed it.
  struct Passed {
    int fd = -1;
    uint64_t inode = 0;
    bool is_admin = false;
  };

  SocketAcceptor(Options options, UniqueFd listener, UniqueFd wake);
  static absl::StatusOr<UniqueFd> Listen(const Options& options);
  void Run();
  // Accepts all waiting connections. Returns false if descriptors have run out; the caller then waits before it
  // retries.
  bool AcceptWaiting();
  void Take(UniqueFd connection);
  // Passes on the silent connections that have sent something, and closes those whose time is over.
  void Serve(const std::deque<bool>& is_readable);
  void ForgetClosed();
  // Records that a connection was closed or has to wait, and logs `why`.
  void ReportFull(const std::string& why);

  const Options options_;
  ProbePeer probe_;
  UniqueFd listener_;
  const UniqueFd wake_;
  std::atomic<bool> stopping_ = false;
  absl::Mutex mutex_;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;  // Whether the thread has ended.
  std::thread thread_;

  // Only the acceptor's thread uses this member and the next two.
  std::deque<Silent> silent_;
  std::deque<Passed> passed_;
  absl::Duration last_warning_ = -absl::InfiniteDuration();  // Since boot.

  std::atomic<bool> was_full_ = false;  // Whether a connection was closed or had to wait since the last HadRoom.

  std::atomic<int64_t> num_accepts_ = 0;
  std::atomic<int64_t> num_accepted_ = 0;
  std::atomic<int64_t> num_refused_ = 0;
  std::atomic<int64_t> num_evicted_ = 0;
  std::atomic<int64_t> num_open_ = 0;
};

}  // namespace ampd::server
