#pragma once

#include <map>
#include <optional>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/access/grants.h"
#include "server/access/identity.h"

namespace ampd::server {

// The other end of a connection of a Unix socket.
struct Peer {
  Identity identity = {};  // Its roles are those at the time of the connection.
  LocalPeer local = {};    // The user, whose roles may have changed since.
  bool is_proxy = false;   // Whether it passes on the calls of others, and says of whom in their metadata.
};

// The peers of the connections that came over Unix sockets. gRPC names such a peer by its descriptor, "fd:17". gRPC
// keeps a descriptor open for as long as a call of its connection lives, so the number that a call shows can't yet
// belong to a later connection. Thread-safe.
class Peers {
 public:
  // Records the peer of a connection, before gRPC reads from it. It replaces that of an earlier connection with the
  // same descriptor.
  void Set(int fd, const Peer& peer) {
    const absl::MutexLock lock(&mutex_);
    peers_[fd] = peer;
  }

  // The peer of this name, as gRPC names it; nothing if it did not come over a socket.
  std::optional<Peer> Find(std::string_view name) const;

 private:
  mutable absl::Mutex mutex_;
  std::map<int, Peer> peers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
