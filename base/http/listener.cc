#include "base/http/listener.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/http/connections.h"
#include "base/http/session.h"
#include "base/http/tls_settings.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "base/timed_wait.h"
#include "base/tls/trust.h"

namespace ampd::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// The pause before the listener accepts connections again after accept failed, such as for lack of file descriptors.
constexpr std::chrono::milliseconds kRetry(50);
// How long Restart waits for the listener's thread. A thread that is not stuck answers within a moment.
constexpr absl::Duration kRestart = absl::Seconds(5);
// The time between two checks whether the TLS files have changed.
constexpr std::chrono::seconds kRefresh(1);

// Whether accept failed because no descriptor or memory is left. Closing a connection then helps, but not after other
// errors, such as those of a broken socket.
bool IsShortage(const error_code& error) {
  namespace errc = boost::system::errc;
  return error == errc::too_many_files_open || error == errc::too_many_files_open_in_system ||
         error == errc::no_buffer_space || error == errc::not_enough_memory;
}

}  // namespace

// The implementation of Listener. All its functions run on the thread of `io_`; only the routes run on another thread.
class Listener::Impl {
 public:
  // `tls`: null without TLS.
  Impl(Options options, int port, UniqueFd listener, std::unique_ptr<TlsSettings> tls)
      : options_(std::move(options)),
        port_(port),
        tls_(std::move(tls)),
        trust_(tls_ == nullptr || options_.tls.ca.empty() ? nullptr : std::make_unique<Trust>(options_.tls.ca)),
        acceptor_(io_),
        retry_(io_),
        refresh_(io_),
        routes_(1),
        environment_{&options_, &connections_, &io_, &routes_, trust_.get()} {
    Assign(std::move(listener));
    Accept();
    if (tls_ != nullptr) {
      RefreshLater();
    }
    thread_ = std::thread([this] { io_.run(); });
  }

  ~Impl() {
    asio::post(io_, [this] { CloseAll(); });
    routes_.join();
    thread_.join();
  }

  int port() const { return port_; }
  Counters counters() const {
    return {num_accepted_, num_refused_, connections_.num_evicted(), connections_.num_open()};
  }
  int64_t num_accepts() const { return num_accepts_; }
  ProbeResult Probe(absl::Duration timeout) {
    return ProbeAddress({options_.address.host, port_}, {&probe_, [this] { return num_accepts(); }}, timeout);
  }
  absl::Status Restart();

 private:
  // Takes ownership of a listening socket.
  void Assign(UniqueFd listener) {
    const bool is_v6 = options_.address.host.find(':') != std::string::npos;
    acceptor_.assign(is_v6 ? tcp::v6() : tcp::v4(), listener.Release());
  }
  void Accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) { OnAccept(error, std::move(socket)); });
  }
  void OnAccept(const error_code& error, tcp::socket socket);
  absl::Status Reopen();
  void Serve(tcp::socket socket);
  void RefreshLater();
  void CloseAll();

  const Options options_;
  const int port_;
  const std::unique_ptr<TlsSettings> tls_;
  const std::unique_ptr<Trust> trust_;
  // A session removes itself from `connections_` when it is destroyed, so `connections_` must outlive the sessions. It
  // is declared before the members that may hold the last reference to a session, and so is destroyed after them.
  Connections connections_;
  ProbePeer probe_;
  std::atomic<int64_t> num_accepts_ = 0;
  std::atomic<int64_t> num_accepted_ = 0;
  std::atomic<int64_t> num_refused_ = 0;

  bool is_closing_ = false;

  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  asio::steady_timer refresh_;
  asio::thread_pool routes_;
  const SessionEnvironment environment_;
  std::thread thread_;
};

void Listener::Impl::OnAccept(const error_code& error, tcp::socket socket) {
  if (error == asio::error::operation_aborted || !acceptor_.is_open()) {
    return;
  }
  if (error == asio::error::connection_aborted || error == asio::error::interrupted) {
    return Accept();
  }
  if (error) {
    if (IsShortage(error)) {
      connections_.Evict();
    }
    retry_.expires_after(kRetry);
    return retry_.async_wait([this](const error_code& stopped) {
      if (!stopped) {
        Accept();
      }
    });
  }
  ++num_accepts_;
  if (probe_.IsProbe(socket.native_handle())) {
    return Accept();
  }
  ++num_accepted_;
  error_code ignored;
  if (connections_.num_open() >= options_.max_connections && !connections_.Evict()) {
    ++num_refused_;
    socket.close(ignored);
  } else {
    socket.set_option(tcp::no_delay(true), ignored);
    Serve(std::move(socket));
  }
  Accept();
}

void Listener::Impl::Serve(tcp::socket socket) {
  if (tls_ == nullptr) {
    std::make_shared<Session<PlainStream>>(environment_, std::move(socket))->Start();
  } else {
    // The session's TLS stream keeps what it needs of the current settings, also after Refresh has replaced them.
    std::make_shared<Session<TlsStream>>(environment_, std::move(socket), *tls_->Current())->Start();
  }
}

// Checks the TLS files for changes after one second. The check is done on the thread that runs the routes, because it
// reads the disk.
void Listener::Impl::RefreshLater() {
  refresh_.expires_after(kRefresh);
  refresh_.async_wait([this](const error_code& stopped) {
    if (stopped || is_closing_) {
      return;
    }
    asio::post(routes_, [this] {
      tls_->Refresh();
      if (trust_ != nullptr) {
        trust_->Refresh();
      }
    });
    RefreshLater();
  });
}

void Listener::Impl::CloseAll() {
  error_code ignored;
  is_closing_ = true;
  acceptor_.close(ignored);
  retry_.cancel();
  refresh_.cancel();
  connections_.CloseAll();
}

absl::Status Listener::Impl::Restart() {
  // The result is shared, because the listener's thread may set it after Restart has stopped waiting.
  struct Result {
    absl::Mutex mutex;
    bool is_known = false;
    absl::Status status;
  };
  const auto result = std::make_shared<Result>();
  asio::post(io_, [this, result] {
    const absl::Status reopened = Reopen();
    absl::MutexLock lock(&result->mutex);
    result->status = reopened;
    result->is_known = true;
  });
  absl::MutexLock lock(&result->mutex);
  return AwaitFor(result->mutex, absl::Condition(&result->is_known), kRestart)
             ? result->status
             : absl::DeadlineExceededError("its thread is stuck");
}

absl::Status Listener::Impl::Reopen() {
  error_code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
  ListenAddress bound;
  AMPD_ASSIGN_OR_RETURN(UniqueFd listener, ListenOn({options_.address.host, port_}, &bound));
  Assign(std::move(listener));
  Accept();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(Options options) {
  std::unique_ptr<TlsSettings> tls;
  if (!options.tls.empty()) {
    AMPD_ASSIGN_OR_RETURN(tls, TlsSettings::Read(options.tls, options.needs_client_certificate));
  }
  ListenAddress bound;
  AMPD_ASSIGN_OR_RETURN(UniqueFd listener, ListenOn(options.address, &bound));
  auto impl = std::make_unique<Impl>(std::move(options), bound.port, std::move(listener), std::move(tls));
  return std::unique_ptr<Listener>(new Listener(std::move(impl)));
}

Listener::Listener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Listener::~Listener() = default;

int Listener::port() const { return impl_->port(); }
Listener::Counters Listener::counters() const { return impl_->counters(); }
ProbeResult Listener::Probe(absl::Duration timeout) { return impl_->Probe(timeout); }
absl::Status Listener::Restart() { return impl_->Restart(); }
int64_t Listener::num_accepts() const { return impl_->num_accepts(); }

}  // namespace ampd::http
