#pragma once

#include <prometheus/collectable.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/listen_address.h"

namespace prometheus {
class Exposer;
}  // namespace prometheus

namespace ampd::server {

// Serves /metrics over HTTP. The destructor ends it, within milliseconds. Thread-compatible.
class MetricsListener {
 public:
  // Port 0: one of the system's choice. Keeps no more than a weak pointer to what it collects, as prometheus::Exposer
  // does; null pointers are passed over. UNAVAILABLE with reason ADDRESS_IN_USE or ADDRESS_NOT_BINDABLE.
  static absl::StatusOr<std::unique_ptr<MetricsListener>> Start(
      const ListenAddress& address, const std::vector<std::shared_ptr<prometheus::Collectable>>& collected);

  ~MetricsListener();
  MetricsListener(const MetricsListener&) = delete;
  MetricsListener& operator=(const MetricsListener&) = delete;

  int port() const { return address_.port; }

 private:
  MetricsListener(const ListenAddress& address, std::unique_ptr<prometheus::Exposer> exposer);

  const ListenAddress address_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace ampd::server
