#include "worker/agent/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/http/listener.h"
#include "worker/agent/gpu_metrics.h"

namespace ampd::agent {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr int kMaxConnections = 64;

MetricFamily Gauge(const std::string& name, const std::string& help, double value) {
  MetricFamily family{name, help, MetricType::Gauge, {ClientMetric()}};
  family.metric[0].gauge.value = value;
  return family;
}

MetricFamily Counter(const std::string& name, const std::string& help, double value) {
  MetricFamily family{name, help, MetricType::Counter, {ClientMetric()}};
  family.metric[0].counter.value = value;
  return family;
}

// Produces the pages of the agent's HTTP endpoint. Each scrape takes one snapshot of the counters.
class AgentPages {
 public:
  explicit AgentPages(const MetricsEndpoint::Sources& sources)
      : version_(sources.version),
        worker_(sources.worker),
        host_(sources.host),
        counters_(*sources.counters),
        times_(*sources.times),
        clock_(*sources.clock),
        gpus_(sources.gpus) {}

  // Seconds until the lease runs out; negative once it has.
  double LeaseSeconds() const {
    return static_cast<double>(counters_.lease_deadline_nanos) * 1e-9 - absl::ToDoubleSeconds(clock_.SinceBoot());
  }

  std::vector<MetricFamily> Collect() const {
    std::vector<MetricFamily> families;
    MetricFamily build = Gauge("ampd_worker_build_info", "Version of this agent; the value is always 1.", 1);
    build.metric[0].label.push_back({"version", version_});
    families.push_back(std::move(build));
    MetricFamily info = Gauge("ampd_worker_info", "Name of this worker; the value is always 1.", 1);
    info.metric[0].label.push_back({"worker", worker_});
    families.push_back(std::move(info));
    families.push_back(Counter("ampd_worker_reports_total", "Reports made for the server.",
                               static_cast<double>(counters_.num_reports)));
    families.push_back(Counter("ampd_worker_directives_total", "Directives that came from the server.",
                               static_cast<double>(counters_.num_directives)));
    families.push_back(Counter("ampd_worker_streams_total", "Attach streams opened, the first one included.",
                               static_cast<double>(counters_.num_attach_streams)));
    families.push_back(Counter("ampd_worker_trainers_started_total", "Trainers started, warm ones included.",
                               static_cast<double>(counters_.num_trainers_started)));
    families.push_back(Counter("ampd_worker_trainers_adopted_total", "Trainers found after a restart of the agent.",
                               static_cast<double>(counters_.num_trainers_adopted)));
    families.push_back(
        Gauge("ampd_worker_attempts", "Attempts that the worker has.", static_cast<double>(counters_.num_attempts)));
    families.push_back(Counter("ampd_worker_out_of_memory_total", "Attempts that ended because memory ran out.",
                               static_cast<double>(counters_.num_out_of_memory)));
    families.push_back(Gauge("ampd_worker_lease_remaining_seconds", "Until the lease runs out; negative when it has.",
                             LeaseSeconds()));
    std::vector<MetricFamily> of_training = times_.Collect();
    std::move(of_training.begin(), of_training.end(), std::back_inserter(families));
    std::vector<MetricFamily> of_host = HostMetrics(host_);
    std::move(of_host.begin(), of_host.end(), std::back_inserter(families));
    if (gpus_ != nullptr) {
      std::vector<MetricFamily> of_gpus = GpuMetrics(gpus_->Read(), gpus_->driver_version());
      std::move(of_gpus.begin(), of_gpus.end(), std::back_inserter(families));
    }
    return families;
  }

 private:
  const std::string version_;
  const std::string worker_;
  const HostSources host_;
  const AgentCounters& counters_;
  const TrainingTimes& times_;
  const Clock& clock_;
  device::GpuMonitor* const gpus_;
};

http::Router Routes(const std::shared_ptr<const AgentPages>& pages) {
  http::Router router;
  router.Add("GET", "/metrics", [pages](const http::Request&) {
    return http::Response{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                          .body = prometheus::TextSerializer().Serialize(pages->Collect()),
                          .headers = {}};
  });
  router.Add("GET", "/healthz", [](const http::Request&) { return http::Text(200, "ok"); });
  router.Add("GET", "/readyz", [pages](const http::Request&) {
    return pages->LeaseSeconds() > 0
               ? http::Text(200, "ready")
               : http::Text(503, "server: the worker holds no lease; it may be starting, or out of reach");
  });
  return router;
}

}  // namespace

struct MetricsEndpoint::State {
  std::unique_ptr<http::Listener> listener;
};

MetricsEndpoint::MetricsEndpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
MetricsEndpoint::~MetricsEndpoint() = default;

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Listen(const ListenAddress& address,
                                                                         const TlsFiles& tls, const Sources& sources) {
  http::Listener::Options options;
  options.address = address;
  options.tls = tls;
  options.needs_client_certificate = true;
  options.max_connections = kMaxConnections;
  options.router = Routes(std::make_shared<const AgentPages>(sources));
  absl::StatusOr<std::unique_ptr<http::Listener>> listener = http::Listener::Start(std::move(options));
  if (absl::IsInvalidArgument(listener.status())) {
    return listener.status();  // The TLS files have changed since the check at the start.
  }
  if (!listener.ok()) {
    return Error(absl::StatusCode::kUnavailable, "ADDRESS_UNAVAILABLE",
                 absl::StrCat("can't listen at ", address.ToString(),
                              ": it is in use, or no address of this host; choose another --metrics-listen"));
  }
  auto state = std::make_unique<State>();
  state->listener = *std::move(listener);
  return std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint(std::move(state)));
}

int MetricsEndpoint::port() const { return state_->listener->port(); }

}  // namespace ampd::agent
