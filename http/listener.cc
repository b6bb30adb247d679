#include "http/listener.h"

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "base/io/file.h"
#include "base/status_macros.h"

namespace ampd::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;
using StringBody = beast::http::string_body;

// How long the listener pauses before it accepts again, after no file descriptor was left.
constexpr std::chrono::milliseconds kRetry(50);
// How long, and for how many bytes, the listener keeps reading after it has answered an invalid request. It then closes
// the connection. Closing at once would lose the answer, because the client may still be sending.
constexpr std::chrono::seconds kLinger(2);
constexpr size_t kMaxLingerBytes = 1 << 20;

std::string ToString(beast::string_view text) { return {text.data(), text.size()}; }
beast::string_view View(const std::string& text) { return {text.data(), text.size()}; }

Request ToRequest(const beast::http::request<StringBody>& message) {
  const std::string target = ToString(message.target());
  const size_t question = target.find('?');
  Request request{.method = ToString(message.method_string()),
                  .path = target.substr(0, question),
                  .query = question == std::string::npos ? "" : target.substr(question + 1),
                  .headers = {},
                  .body = message.body()};
  for (const auto& field : message) {
    request.headers.push_back({ToString(field.name_string()), ToString(field.value())});
  }
  return request;
}

// Returns the HTTP status that answers a request which could not be read. Returns 0 if the connection itself failed:
// nobody would read an answer.
int StatusOf(const error_code& error) {
  using Error = beast::http::error;
  if (error == Error::header_limit || error == Error::buffer_overflow) {
    return 431;
  }
  if (error == Error::body_limit) {
    return 413;
  }
  const bool is_parse_error = error.category() == make_error_code(Error::bad_method).category();
  return is_parse_error && error != Error::end_of_stream && error != Error::partial_message ? 400 : 0;
}

}  // namespace

// The implementation of Listener. All its functions run on the thread of `io_`; only the routes run on another thread.
class Listener::Impl {
 public:
  Impl(Options options, int port, UniqueFd listener)
      : options_(std::move(options)), port_(port), acceptor_(io_), retry_(io_), routes_(1) {
    const bool is_v6 = options_.address.host.find(':') != std::string::npos;
    acceptor_.assign(is_v6 ? tcp::v6() : tcp::v4(), listener.Release());
    Accept();
    thread_ = std::thread([this] { io_.run(); });
  }

  ~Impl() {
    asio::post(io_, [this] { CloseAll(); });
    routes_.join();
    thread_.join();
  }

  int port() const { return port_; }
  Counters counters() const { return {num_accepted_, num_refused_, num_evicted_, num_open_}; }

 private:
  class Session;
  using Sessions = std::list<Session*>;

  void Accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) { OnAccept(error, std::move(socket)); });
  }
  void OnAccept(const error_code& error, tcp::socket socket);
  bool Evict();
  void CloseAll();

  const Options options_;
  const int port_;
  // A session removes itself from these lists when it is destroyed, so the lists must outlive the sessions. They are
  // declared before the members that may hold the last reference to a session, and so are destroyed later.
  Sessions waiting_;  // Connections waiting for a request, longest wait first.
  Sessions serving_;  // All other connections.
  std::atomic<int64_t> num_accepted_ = 0;
  std::atomic<int64_t> num_refused_ = 0;
  std::atomic<int64_t> num_evicted_ = 0;
  std::atomic<int64_t> num_open_ = 0;

  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  asio::thread_pool routes_;
  std::thread thread_;
};

// One connection: reads a request, has it answered, writes the answer, and repeats. The object lives as long as one of
// its operations is in progress.
class Listener::Impl::Session : public std::enable_shared_from_this<Listener::Impl::Session> {
 public:
  Session(tcp::socket socket, Impl* listener) : stream_(std::move(socket)), listener_(*listener) {
    place_ = listener_.serving_.insert(listener_.serving_.end(), this);
    ++listener_.num_open_;
  }
  ~Session() {
    (is_waiting_ ? listener_.waiting_ : listener_.serving_).erase(place_);
    --listener_.num_open_;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Read(absl::Duration deadline) {
    Move(/*waiting=*/true);
    parser_.emplace();
    parser_->header_limit(listener_.options_.max_head_bytes);
    parser_->body_limit(listener_.options_.max_body_bytes);
    stream_.expires_after(absl::ToChronoNanoseconds(deadline));
    beast::http::async_read(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](const error_code& error, size_t) { self->OnRead(error); });
  }

  void Close() {
    error_code ignored;
    stream_.socket().close(ignored);
  }

  // Closes the connection. The pending read ends a moment later, but the session leaves the waiting list at once, so
  // that it is not evicted twice.
  void Evict() {
    Move(/*waiting=*/false);
    Close();
  }

 private:
  void Move(bool waiting) {
    Sessions& from = is_waiting_ ? listener_.waiting_ : listener_.serving_;
    Sessions& to = waiting ? listener_.waiting_ : listener_.serving_;
    to.splice(to.end(), from, place_);
    is_waiting_ = waiting;
  }

  void OnRead(const error_code& error) {
    Move(/*waiting=*/false);
    if (error) {
      const int status = StatusOf(error);
      return status == 0 ? Close() : Refuse(status);
    }
    stream_.expires_never();
    keep_alive_ = parser_->get().keep_alive();
    version_ = parser_->get().version();
    asio::post(listener_.routes_, [self = this->shared_from_this(), request = ToRequest(parser_->get())] {
      Response response = self->listener_.options_.router.Answer(request);
      asio::post(self->listener_.io_,
                 [self, is_head = request.method == "HEAD", answer = std::move(response)]() mutable {
                   self->Write(std::move(answer), is_head);
                 });
    });
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
    message.set(beast::http::field::content_type, View(response.content_type));
    for (const Header& header : response.headers) {
      message.insert(View(header.name), View(header.value));
    }
    message.content_length(response.body.size());
    message.keep_alive(keep_alive_);
  }

  void Write(Response response, bool is_head) {
    stream_.expires_after(absl::ToChronoNanoseconds(listener_.options_.answer_deadline));
    const auto written = [self = this->shared_from_this()](const error_code& error, size_t) { self->OnWritten(error); };
    if (is_head) {
      auto& message = message_.emplace<beast::http::response<beast::http::empty_body>>();
      Fill(message, response);
      beast::http::async_write(stream_, message, written);
    } else {
      auto& message = message_.emplace<beast::http::response<StringBody>>();
      Fill(message, response);
      message.body() = std::move(response.body);
      beast::http::async_write(stream_, message, written);
    }
  }

  void OnWritten(const error_code& error) {
    if (error) {
      return Close();
    }
    if (keep_alive_) {
      return Read(listener_.options_.idle_deadline);
    }
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    if (!lingers_) {
      return Close();
    }
    stream_.expires_after(kLinger);
    Discard();
  }

  void Discard() {
    stream_.async_read_some(asio::buffer(discarded_),
                            [self = this->shared_from_this()](const error_code& error, size_t num_bytes) {
                              self->num_discarded_ += num_bytes;
                              error || self->num_discarded_ > kMaxLingerBytes ? self->Close() : self->Discard();
                            });
  }

  beast::tcp_stream stream_;
  Impl& listener_;
  Sessions::iterator place_;
  bool is_waiting_ = false;
  beast::flat_buffer buffer_;
  std::optional<beast::http::request_parser<StringBody>> parser_;
  std::variant<std::monostate, beast::http::response<StringBody>, beast::http::response<beast::http::empty_body>>
      message_;
  bool keep_alive_ = false;
  unsigned version_ = 11;
  bool lingers_ = false;
  std::array<char, 4096> discarded_ = {};
  size_t num_discarded_ = 0;
};

void Listener::Impl::OnAccept(const error_code& error, tcp::socket socket) {
  if (error == asio::error::operation_aborted || !acceptor_.is_open()) {
    return;
  }
  if (error == asio::error::connection_aborted || error == asio::error::interrupted) {
    return Accept();
  }
  if (error) {  // Most likely, no file descriptor is left.
    Evict();
    retry_.expires_after(kRetry);
    return retry_.async_wait([this](const error_code& stopped) {
      if (!stopped) {
        Accept();
      }
    });
  }
  ++num_accepted_;
  if (num_open_ >= options_.max_connections && !Evict()) {
    ++num_refused_;
    error_code ignored;
    socket.close(ignored);
  } else {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    std::make_shared<Session>(std::move(socket), this)->Read(options_.request_deadline);
  }
  Accept();
}

// Closes the connection that has waited longest for its request. Returns false if none waits.
bool Listener::Impl::Evict() {
  if (waiting_.empty()) {
    return false;
  }
  ++num_evicted_;
  waiting_.front()->Evict();
  return true;
}

void Listener::Impl::CloseAll() {
  error_code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
  for (Sessions* sessions : {&waiting_, &serving_}) {
    for (Session* session : *sessions) {
      session->Close();
    }
  }
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(Options options) {
  ListenAddress bound;
  AMPD_ASSIGN_OR_RETURN(UniqueFd listener, ListenOn(options.address, &bound));
  auto impl = std::make_unique<Impl>(std::move(options), bound.port, std::move(listener));
  return std::unique_ptr<Listener>(new Listener(std::move(impl)));
}

Listener::Listener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Listener::~Listener() = default;

int Listener::port() const { return impl_->port(); }
Listener::Counters Listener::counters() const { return impl_->counters(); }

}  // namespace ampd::http
