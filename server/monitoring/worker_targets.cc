#include "server/monitoring/worker_targets.h"

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "base/io/listen_address.h"

namespace ampd::server {
namespace {

constexpr char kFlag[] = "--metrics-listen";

bool IsLoopback(const std::string& address) { return ParseLoopbackAddress(kFlag, address, "").ok(); }

// Returns the address at which Prometheus reaches the worker; empty if the worker reports no address.
std::string TargetOf(const v1::Worker& worker) {
  const absl::StatusOr<ListenAddress> listen = ParseListenAddress(kFlag, worker.metrics_address());
  if (!listen.ok()) {
    return "";
  }
  const bool is_everywhere = listen->host == "0.0.0.0" || listen->host == "::" || listen->host == "[::]";
  return is_everywhere ? ListenAddress{worker.name(), listen->port}.ToString() : worker.metrics_address();
}

}  // namespace

std::string WorkerTargets(const std::vector<v1::Worker>& workers) {
  nlohmann::json groups = nlohmann::json::array();
  for (const v1::Worker& worker : workers) {
    if (const std::string target = TargetOf(worker); !target.empty()) {
      groups.push_back(
          {{"targets", {target}},
           {"labels",
            {{"worker", worker.name()}, {"__scheme__", IsLoopback(worker.metrics_address()) ? "http" : "https"}}}});
    }
  }
  return groups.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ampd::server
