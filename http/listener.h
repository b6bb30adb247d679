#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/io/listen_address.h"
#include "http/router.h"

namespace ampd::http {

// Serves a Router over HTTP/1.1. No connection holds a thread: one thread reads and writes for all, another runs the
// routes, one request after the other.
//
// Everything has a deadline and a bound. A request that is too slow ends its connection without an answer, one with too
// large a head gets 431, with too large a body 413, and one that is no HTTP 400. When max_connections are open, the one
// that has waited longest for its request is closed for a new one; so it is when no file descriptor is left. Only where
// every connection has a request under way is the new one closed. Thread-safe.
class Listener {
 public:
  struct Options {
    ListenAddress address;
    Router router;
    int max_connections = 256;
    absl::Duration request_deadline = absl::Seconds(10);  // from the connection on until the request is there
    absl::Duration idle_deadline = absl::Seconds(75);     // the same of every later request of a connection
    absl::Duration answer_deadline = absl::Seconds(30);   // until the client has taken the answer
    uint32_t max_head_bytes = 16 << 10;
    uint64_t max_body_bytes = 64 << 10;
  };
  // Since the start.
  struct Counters {
    int64_t num_accepted = 0;
    int64_t num_refused = 0;  // closed at once: there was no room
    int64_t num_evicted = 0;  // closed in favour of a newer one
    int64_t num_open = 0;     // now
  };

  // Binds the address and serves. UNAVAILABLE with reason ADDRESS_IN_USE or ADDRESS_NOT_BINDABLE.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(Options options);
  // Closes all connections; a route that runs is waited for.
  ~Listener();

  int port() const;
  Counters counters() const;

 private:
  class Impl;
  explicit Listener(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace ampd::http
