#include "server/metrics_listener.h"

#include <prometheus/exposer.h>

#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/timed_wait.h"

namespace ampd::server {
namespace {

constexpr char kThreads[] = "4";

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(
    const ListenAddress& address, const std::vector<std::shared_ptr<prometheus::Collectable>>& collected) {
  AMPD_RETURN_IF_ERROR(CheckBindable(address));
  std::unique_ptr<prometheus::Exposer> exposer;
  try {
    exposer = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", address.ToString(), "num_threads", kThreads});
  } catch (const std::exception& error) {
    return Error(absl::StatusCode::kUnavailable, "ADDRESS_IN_USE",
                 absl::StrCat("cannot listen on ", address.ToString(), ": ", error.what()));
  }
  for (const std::shared_ptr<prometheus::Collectable>& collectable : collected) {
    if (collectable != nullptr) {
      exposer->RegisterCollectable(collectable);
    }
  }
  const ListenAddress bound{address.host, exposer->GetListeningPorts().at(0)};
  return std::unique_ptr<MetricsListener>(new MetricsListener(bound, std::move(exposer)));
}

MetricsListener::MetricsListener(const ListenAddress& address, std::unique_ptr<prometheus::Exposer> exposer)
    : address_(address), exposer_(std::move(exposer)) {}

// civetweb's thread looks every two seconds whether it shall end, and whenever somebody connects.
MetricsListener::~MetricsListener() {
  absl::Mutex mutex;
  bool has_ended = false;
  std::thread ending([&] {
    exposer_.reset();
    absl::MutexLock lock(&mutex);
    has_ended = true;
  });
  const auto is_waiting = [&] {
    absl::MutexLock lock(&mutex);
    return !AwaitFor(mutex, absl::Condition(&has_ended), absl::Milliseconds(10));
  };
  while (is_waiting()) {
    Touch(address_);
  }
  ending.join();
}

}  // namespace ampd::server
