#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/io/file.h"
#include "base/io/listen_address.h"
#include "base/tls/tls_files.h"

namespace ampd {

// A TLS connection on which a test sends and reads arbitrary bytes. Single-threaded.
class TlsConnection {
 public:
  // Connects and performs the TLS handshake. `tls` holds the CA of the server and, if the client has one, its
  // certificate. `version` is the newest TLS version that the client supports.
  TlsConnection(const ListenAddress& address, const TlsFiles& tls, int version = TLS1_3_VERSION);

  // Whether the handshake succeeded, as the client sees it. A server that refuses the client's certificate says so only
  // later: the first Read then returns nothing.
  bool ok() const { return ok_; }
  // The common name of the server's certificate.
  std::string ServerName() const;
  void Send(std::string_view bytes);
  // Returns the text that the peer sends until it closes the connection or, if `end` is not empty, until the text ends
  // with `end`. If the peer sends nothing for 30 s, returns the text so far.
  std::string Read(std::string_view end = "");

 private:
  struct Free {
    void operator()(SSL_CTX* settings) const { SSL_CTX_free(settings); }
    void operator()(SSL* connection) const { SSL_free(connection); }
  };
  UniqueFd fd_;
  std::unique_ptr<SSL_CTX, Free> settings_;
  std::unique_ptr<SSL, Free> connection_;
  bool ok_ = false;
};

}  // namespace ampd
