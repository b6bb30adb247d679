#pragma once

#include <map>
#include <optional>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/access/grants.h"
#include "server/access/identity.h"

namespace ampd::server {

// The process at the other end of a connection over a Unix socket.
struct Peer {
  Identity identity = {};  // With the roles at the time of the connection.
  LocalPeer local = {};    // The user; the user's roles may have changed since.
  bool is_proxy = false;   // Whether the peer passes on the calls of other callers.
};

// The peers of the connections over Unix sockets. gRPC names such a peer by its descriptor, "fd:17". gRPC keeps the
// descriptor open while a call of its connection lives, so during a call the number cannot belong to a later
// connection. Thread-safe.
class Peers {
 public:
  // Records the peer of a new connection, before gRPC reads from the connection. Replaces the peer of an earlier
  // connection with the same descriptor.
  void Set(int fd, const Peer& peer) {
    const absl::MutexLock lock(&mutex_);
    peers_[fd] = peer;
  }

  // Returns the peer with this name of gRPC's; nullopt if the peer is not on a Unix socket.
  std::optional<Peer> Find(std::string_view name) const;

 private:
  mutable absl::Mutex mutex_;
  std::map<int, Peer> peers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
