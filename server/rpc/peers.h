#pragma once

#include <map>
#include <optional>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/access/identity.h"

namespace ampd::server {

// The identities of the connections that came over the Unix socket. gRPC names such a peer by its descriptor, "fd:17".
// gRPC keeps a descriptor open for as long as a call of its connection lives, so the number that a call shows can't yet
// belong to a later connection. Thread-safe.
class Peers {
 public:
  // Records the identity of a connection, before gRPC reads from it. It replaces that of an earlier connection with the
  // same descriptor.
  void Set(int fd, const Identity& identity) {
    const absl::MutexLock lock(&mutex_);
    identities_[fd] = identity;
  }

  // The identity of a peer as gRPC names it; nothing if it did not come over the socket.
  std::optional<Identity> Find(std::string_view peer) const;

 private:
  mutable absl::Mutex mutex_;
  std::map<int, Identity> identities_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
