#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/http/connections.h"
#include "base/http/listener.h"
#include "base/http/router.h"
#include "base/http/tls_settings.h"
#include "base/tls/trust.h"

// The sessions of a Listener, one for each connection. Only http/listener.cc uses this header.
namespace ampd::http {

using PlainStream = boost::beast::tcp_stream;
using TlsStream = boost::beast::ssl_stream<boost::beast::tcp_stream>;

// How long, and for how many bytes, a session keeps reading after it has answered an invalid request. It then closes
// the connection. Closing at once would lose the answer, because the client may still be sending.
inline constexpr std::chrono::seconds kLinger(2);
inline constexpr size_t kMaxLingerBytes = 1 << 20;

// The objects that a listener shares with all of its sessions.
struct SessionEnvironment {
  const Listener::Options* options = nullptr;
  Connections* connections = nullptr;
  boost::asio::io_context* io = nullptr;
  boost::asio::thread_pool* routes = nullptr;
  const Trust* trust = nullptr;  // Verifies clients' certificates; null: the listener asks for none.
};

// Converts a request that Boost.Beast has read. The session then sets `peer` and `certificate_name`.
Request ToRequest(const boost::beast::http::request<boost::beast::http::string_body>& message);
// Returns the HTTP status that answers a request which could not be read. Returns 0 if the connection itself failed:
// nobody would read an answer.
int StatusOf(const boost::system::error_code& error);
// The client's address: "ipv4:127.0.0.1:40000" or "ipv6:[::1]:40000".
std::string AddressOf(const boost::asio::ip::tcp::socket& socket);

// One connection, with TLS if Stream is TlsStream: reads a request, runs its route, writes the answer, and repeats. The
// object lives as long as one of its operations is in progress. Its functions run on the thread of `io`; only the
// routes run on another thread.
template <typename Stream>
class Session final : public Connection, public std::enable_shared_from_this<Session<Stream>> {
  static constexpr bool kHasTls = std::is_same_v<Stream, TlsStream>;
  using StringBody = boost::beast::http::string_body;
  using EmptyBody = boost::beast::http::empty_body;
  using ErrorCode = boost::system::error_code;
  using Tcp = boost::asio::ip::tcp;

 public:
  // `tls` is the TLS settings if Stream is TlsStream, and empty otherwise.
  template <typename... Settings>
  Session(const SessionEnvironment& environment, Tcp::socket socket, Settings&... tls)
      : Connection(environment.connections),
        environment_(environment),
        options_(*environment.options),
        peer_(AddressOf(socket)),
        stream_(std::move(socket), tls...) {}

  void Start() {
    if constexpr (kHasTls) {
      SetWaiting(true);
      Expect(options_.handshake_deadline);
      stream_.async_handshake(TlsStream::server,
                              [self = this->shared_from_this()](const ErrorCode& error) { self->OnHandshake(error); });
    } else {
      Read(options_.request_deadline);
    }
  }

  void Close() override {
    ErrorCode ignored;
    lowest().socket().close(ignored);
  }

 private:
  PlainStream& lowest() { return boost::beast::get_lowest_layer(stream_); }
  void Expect(absl::Duration deadline) { lowest().expires_after(absl::ToChronoNanoseconds(deadline)); }

  void OnHandshake(const ErrorCode& error) {
    if (error) {
      return Close();
    }
    if constexpr (kHasTls) {
      certificates_ = ClientCertificates(stream_.native_handle());
    }
    Read(options_.request_deadline);
  }

  void Read(absl::Duration deadline) {
    SetWaiting(true);
    parser_.emplace();
    parser_->header_limit(options_.max_head_bytes);
    parser_->body_limit(options_.max_body_bytes);
    Expect(deadline);
    boost::beast::http::async_read(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](const ErrorCode& error, size_t) { self->OnRead(error); });
  }

  void OnRead(const ErrorCode& error) {
    SetWaiting(false);
    if (error) {
      const int status = StatusOf(error);
      return status == 0 ? Close() : Refuse(status);
    }
    lowest().expires_never();
    keep_alive_ = parser_->get().keep_alive();
    version_ = parser_->get().version();
    boost::asio::post(
        *environment_.routes, [self = this->shared_from_this(), request = ToRequest(parser_->get())]() mutable {
          std::optional<Response> response = self->Answer(&request);
          boost::asio::post(*self->environment_.io,
                            [self, is_head = request.method == "HEAD", answer = std::move(response)]() mutable {
                              answer.has_value() ? self->Write(*std::move(answer), is_head) : self->Close();
                            });
        });
  }

  // Runs the request's route. Called on the listener's thread that runs the routes. Returns nothing if the client has
  // presented a certificate that is no longer trusted.
  std::optional<Response> Answer(Request* request) const {
    request->peer = peer_;
    if (!certificates_.empty()) {
      std::optional<std::string> name =
          environment_.trust == nullptr ? std::nullopt : environment_.trust->NameOf(certificates_);
      if (!name.has_value()) {
        return std::nullopt;
      }
      request->certificate_name = *std::move(name);
    }
    return options_.router.Answer(*request);
  }

  void Refuse(int status) {
    keep_alive_ = false;
    lingers_ = true;
    Write(Text(status, status == 400 ? "this is no HTTP request" : "the request is too large"), /*is_head=*/false);
  }

  template <typename Message>
  void Fill(Message& message, const Response& response) const {
    message.version(version_);
    message.result(static_cast<unsigned>(response.status));
    message.set(boost::beast::http::field::content_type, response.content_type);
    for (const Header& header : response.headers) {
      message.insert(header.name, header.value);
    }
    message.content_length(response.body.size());
    message.keep_alive(keep_alive_);
  }

  void Write(Response response, bool is_head) {
    Expect(options_.answer_deadline);
    const auto written = [self = this->shared_from_this()](const ErrorCode& error, size_t) { self->OnWritten(error); };
    if (is_head) {
      auto& message = message_.template emplace<boost::beast::http::response<EmptyBody>>();
      Fill(message, response);
      boost::beast::http::async_write(stream_, message, written);
    } else {
      auto& message = message_.template emplace<boost::beast::http::response<StringBody>>();
      Fill(message, response);
      message.body() = std::move(response.body);
      boost::beast::http::async_write(stream_, message, written);
    }
  }

  void OnWritten(const ErrorCode& error) {
    if (error) {
      return Close();
    }
    if (keep_alive_) {
      return Read(options_.idle_deadline);
    }
    SetWaiting(true);
    lowest().expires_after(kLinger);
    if constexpr (kHasTls) {
      // Send TLS's close_notify to the client, and wait for the client's.
      stream_.async_shutdown([self = this->shared_from_this()](const ErrorCode&) { self->EndSending(); });
    } else {
      EndSending();
    }
  }

  void EndSending() {
    ErrorCode ignored;
    lowest().socket().shutdown(Tcp::socket::shutdown_send, ignored);
    lingers_ ? Discard() : Close();
  }

  void Discard() {
    lowest().async_read_some(boost::asio::buffer(discarded_),
                             [self = this->shared_from_this()](const ErrorCode& error, size_t num_bytes) {
                               self->num_discarded_ += num_bytes;
                               error || self->num_discarded_ > kMaxLingerBytes ? self->Close() : self->Discard();
                             });
  }

  const SessionEnvironment environment_;
  const Listener::Options& options_;
  const std::string peer_;
  std::string certificates_;  // The client's certificates, in PEM form; empty: none.
  Stream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<StringBody>> parser_;
  std::variant<std::monostate, boost::beast::http::response<StringBody>, boost::beast::http::response<EmptyBody>>
      message_;
  bool keep_alive_ = false;
  unsigned version_ = 11;
  bool lingers_ = false;
  std::array<char, 4096> discarded_ = {};
  size_t num_discarded_ = 0;
};

}  // namespace ampd::http
