#include "tests/base/http/tls_connection.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <array>
#include <csignal>

namespace ampd {

TlsConnection::TlsConnection(const ListenAddress& address, const TlsFiles& tls, int version)
    : settings_(SSL_CTX_new(TLS_client_method())) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to connections that the peer has closed.
  SSL_CTX_set_max_proto_version(settings_.get(), version);
  EXPECT_EQ(SSL_CTX_load_verify_locations(settings_.get(), tls.ca.c_str(), nullptr), 1);
  SSL_CTX_set_verify(settings_.get(), SSL_VERIFY_PEER, nullptr);
  if (!tls.certificate.empty()) {
    EXPECT_EQ(SSL_CTX_use_certificate_chain_file(settings_.get(), tls.certificate.c_str()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(settings_.get(), tls.key.c_str(), SSL_FILETYPE_PEM), 1);
  }
  fd_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(address.port));
  inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
  const timeval patience = {.tv_sec = 30, .tv_usec = 0};
  setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0) << address.ToString();
  connection_.reset(SSL_new(settings_.get()));
  SSL_set_fd(connection_.get(), fd_.get());
  ok_ = SSL_connect(connection_.get()) == 1;
  ERR_clear_error();
}

std::string TlsConnection::ServerName() const {
  X509* const certificate = SSL_get1_peer_certificate(connection_.get());
  std::array<char, 128> name = {};
  if (certificate != nullptr) {
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.data(), name.size());
    X509_free(certificate);
  }
  return name.data();
}

void TlsConnection::Send(std::string_view bytes) {
  if (ok_ && !bytes.empty()) {
    SSL_write(connection_.get(), bytes.data(), static_cast<int>(bytes.size()));
    ERR_clear_error();
  }
}

std::string TlsConnection::Read(std::string_view end) {
  std::string text;
  std::array<char, 1 << 14> buffer = {};
  while (ok_ && (end.empty() || !std::string_view(text).ends_with(end))) {
    const int size = SSL_read(connection_.get(), buffer.data(), buffer.size());
    if (size <= 0) {
      ERR_clear_error();
      break;
    }
    text.append(buffer.data(), static_cast<size_t>(size));
  }
  return text;
}

}  // namespace ampd
