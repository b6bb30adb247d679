#include "base/http/page.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/status_macros.h"

namespace ampd::http {
namespace {

constexpr size_t kMaxAnswerBytes = 80 << 10;  // A body of 64 KiB, and the head before it.

// A connection to a listener, with TLS or without. Single-threaded.
class Connection {
 public:
  explicit Connection(UniqueFd fd) : fd_(std::move(fd)), settings_(nullptr, &SSL_CTX_free), tls_(nullptr, &SSL_free) {}

  // Makes the TLS handshake.
  absl::Status StartTls(const TlsFiles& files) {
    settings_.reset(SSL_CTX_new(TLS_client_method()));
    if (SSL_CTX_use_certificate_chain_file(settings_.get(), files.certificate.c_str()) != 1 ||
        SSL_CTX_use_PrivateKey_file(settings_.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
      ERR_clear_error();
      return Error(absl::StatusCode::kInvalidArgument, "BAD_TLS_FILES",
                   absl::StrCat("cannot use the certificate in ", files.certificate, " with the key in ", files.key));
    }
    tls_.reset(SSL_new(settings_.get()));
    SSL_set_fd(tls_.get(), fd_.get());
    const bool is_ok = SSL_connect(tls_.get()) == 1;
    ERR_clear_error();
    return is_ok ? absl::OkStatus() : absl::UnavailableError("no TLS connection could be made");
  }

  absl::Status Send(std::string_view text) {
    const bool is_sent = tls_ == nullptr ? WriteAll(fd_.get(), text).ok()
                                         : SSL_write(tls_.get(), text.data(), static_cast<int>(text.size())) > 0;
    ERR_clear_error();
    return is_sent ? absl::OkStatus() : absl::UnavailableError("the connection broke");
  }

  // Reads until the peer closes the connection, a step takes too long, or kMaxAnswerBytes have arrived.
  std::string ReadToEnd() {
    std::string text;
    std::array<char, 4096> buffer = {};
    while (text.size() < kMaxAnswerBytes) {
      const ssize_t size = tls_ == nullptr ? read(fd_.get(), buffer.data(), buffer.size())
                                           : SSL_read(tls_.get(), buffer.data(), buffer.size());
      if (size <= 0) {
        break;
      }
      text.append(buffer.data(), static_cast<size_t>(size));
    }
    ERR_clear_error();
    return text;
  }

 private:
  const UniqueFd fd_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> settings_;
  std::unique_ptr<SSL, decltype(&SSL_free)> tls_;
};

// Parses "HTTP/1.1 200 OK", headers, an empty line and the body.
absl::StatusOr<Page> ParseAnswer(std::string_view text) {
  constexpr std::string_view kBegin = "HTTP/1.1 ";
  constexpr size_t kStatusDigits = 3;
  const size_t end_of_head = text.find("\r\n\r\n");
  Page page;
  if (text.substr(0, kBegin.size()) != kBegin || end_of_head == std::string_view::npos ||
      !absl::SimpleAtoi(std::string(text.substr(kBegin.size(), kStatusDigits)), &page.status)) {
    return absl::UnavailableError("it sent no answer; if it asks for a certificate, show one of its authority");
  }
  page.body = std::string(text.substr(end_of_head + 4));
  return page;
}

}  // namespace

absl::StatusOr<Page> GetPage(const ListenAddress& address, const std::string& path, const TlsFiles& tls,
                             absl::Duration timeout) {
  AMPD_ASSIGN_OR_RETURN(UniqueFd fd, ConnectTo(address, timeout));
  Connection connection(std::move(fd));
  if (!tls.certificate.empty()) {
    AMPD_RETURN_IF_ERROR(connection.StartTls(tls));
  }
  AMPD_RETURN_IF_ERROR(
      connection.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")));
  return ParseAnswer(connection.ReadToEnd());
}

}  // namespace ampd::http
