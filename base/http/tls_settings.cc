#include "base/http/tls_settings.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace ampd::http {
namespace {

using boost::asio::ssl::context;

// The maximum size in bytes of the certificates that a client presents.
constexpr long kMaxClientCertificatesBytes = 64 << 10;

boost::asio::const_buffer Bytes(const std::string& text) { return {text.data(), text.size()}; }

absl::Status BadFiles(const std::string& why) {
  ERR_clear_error();
  return Error(absl::StatusCode::kInvalidArgument, "BAD_TLS_FILES", why);
}

void AppendPem(X509* certificate, BIO* pem) {
  if (certificate != nullptr) {
    PEM_write_bio_X509(pem, certificate);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsSettings>> TlsSettings::Read(const TlsFiles& files, bool needs_client_certificate) {
  std::unique_ptr<TlsSettings> settings(new TlsSettings(files, needs_client_certificate));
  AMPD_ASSIGN_OR_RETURN(TlsTexts texts, ReadTlsFiles(files));
  AMPD_RETURN_IF_ERROR(settings->Use(std::move(texts)));
  return settings;
}

absl::Status TlsSettings::Use(TlsTexts texts) {
  auto made = std::make_shared<context>(context::tlsv13_server);
  SSL_CTX* const tls = made->native_handle();
  SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION);
  SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(tls, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(tls, 0);
  SSL_CTX_set_max_cert_list(tls, kMaxClientCertificatesBytes);
  // An empty passphrase, so that OpenSSL does not ask the terminal for one.
  SSL_CTX_set_default_passwd_cb(tls, [](char*, int, int, void*) { return 0; });
  boost::system::error_code error;
  made->use_certificate_chain(Bytes(texts.certificate), error);
  if (error) {
    return BadFiles(absl::StrCat(files_.certificate, ": has no certificate in PEM form"));
  }
  // OpenSSL also checks here that the key belongs to the certificate.
  made->use_private_key(Bytes(texts.key), context::pem, error);
  if (error || SSL_CTX_check_private_key(tls) != 1) {
    return BadFiles(absl::StrCat(files_.key, ": is not the key of the certificate in ", files_.certificate));
  }
  if (!files_.ca.empty()) {
    made->add_certificate_authority(Bytes(texts.ca), error);
    if (error) {
      return BadFiles(absl::StrCat(files_.ca, ": has no certificate in PEM form"));
    }
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | (needs_client_certificate_ ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                       nullptr);
  }
  const absl::MutexLock lock(&mutex_);
  texts_ = std::move(texts);
  current_ = std::move(made);
  return absl::OkStatus();
}

void TlsSettings::Refresh() {
  absl::StatusOr<TlsTexts> texts = ReadTlsFiles(files_);
  const bool has_changed = texts.ok() && [&] {
    const absl::MutexLock lock(&mutex_);
    return *texts != texts_;
  }();
  if (has_changed) {
    Use(*std::move(texts)).IgnoreError();
  }
}

std::shared_ptr<context> TlsSettings::Current() const {
  const absl::MutexLock lock(&mutex_);
  return current_;
}

std::string ClientCertificates(SSL* connection) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> pem(BIO_new(BIO_s_mem()), &BIO_free_all);
  const std::unique_ptr<X509, decltype(&X509_free)> own(SSL_get1_peer_certificate(connection), &X509_free);
  if (pem == nullptr || own == nullptr) {
    return "";
  }
  AppendPem(own.get(), pem.get());
  // On a server, OpenSSL leaves the client's own certificate out of this chain.
  const STACK_OF(X509)* const others = SSL_get_peer_cert_chain(connection);
  for (int i = 0; i < sk_X509_num(others); ++i) {
    AppendPem(sk_X509_value(others, i), pem.get());
  }
  char* text = nullptr;
  const long size = BIO_get_mem_data(pem.get(), &text);
  return {text, static_cast<size_t>(size)};
}

}  // namespace ampd::http
