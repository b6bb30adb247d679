#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/http/router.h"
#include "base/io/listen_address.h"
#include "base/io/listener_probe.h"
#include "base/tls/tls_files.h"

namespace ampd::http {

// Serves a Router over HTTP/1.1, with or without TLS 1.3. Two threads serve any number of connections: one thread reads
// and writes for all connections, the other runs the routes, one request after another.
//
// Everything has a deadline and a bound. A request that is too slow ends its connection without an answer. A head that
// is too large is answered with 431, a body that is too large with 413, and invalid HTTP with 400. If max_connections
// are open or no file descriptor is left, a new connection evicts (closes) the open connection that has waited longest
// for its client. The new connection is refused only if every open one has a request in progress.
//
// The TLS files are read again once a second; new connections use the new ones. A connection is closed at its next
// request if its client's certificate has expired since, or if the CA of that certificate was removed from the file.
// Thread-safe.
class Listener {
 public:
  struct Options {
    ListenAddress address;
    Router router;
    // If a certificate and a key are given, the listener speaks only TLS. If a CA is given too, the listener asks each
    // client for a certificate, and refuses one that this CA did not issue.
    TlsFiles tls;
    bool needs_client_certificate = false;  // Refuses clients without a certificate.
    int max_connections = 256;
    absl::Duration handshake_deadline = absl::Seconds(5);  // From accept until the TLS handshake is complete.
    // The time from accept, or with TLS from the end of the handshake, until the first request is complete.
    absl::Duration request_deadline = absl::Seconds(10);
    absl::Duration idle_deadline =
        absl::Seconds(75);  // From an answer until the connection's next request is complete.
    absl::Duration answer_deadline = absl::Seconds(30);  // From an answer's start until it is sent.
    uint32_t max_head_bytes = 16 << 10;
    uint64_t max_body_bytes = 64 << 10;
  };
  // Numbers of connections. All except `num_open` count from the start of the listener.
  struct Counters {
    int64_t num_accepted = 0;
    int64_t num_refused = 0;  // Connections closed at once, because all others had requests in progress.
    int64_t num_evicted = 0;  // Connections closed to make room for a newer one.
    int64_t num_open = 0;     // Connections that are open now.
  };

  // Binds the address and starts to serve. Returns UNAVAILABLE with reason ADDRESS_IN_USE or ADDRESS_NOT_BINDABLE if it
  // can't be bound, and INVALID_ARGUMENT (BAD_TLS_FILES) if the files for TLS can't be used.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(Options options);
  // Closes all connections, and waits until a running route has returned.
  ~Listener();

  int port() const;
  Counters counters() const;

  // Connects to the listener's address, and waits until the listener has accepted a connection. The counters do not
  // include such probes.
  ProbeResult Probe(absl::Duration timeout);
  // Closes the listening socket and opens another one on the same address; connections stay open. Returns
  // DEADLINE_EXCEEDED if the listener's thread is stuck, or an error of Start. REQUIRES: called by one thread at a
  // time.
  absl::Status Restart();
  // The number of connections accepted so far, including probes and refused connections.
  int64_t num_accepts() const;

 private:
  class Impl;
  explicit Listener(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace ampd::http
