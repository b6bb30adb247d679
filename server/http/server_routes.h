#pragma once

#include <functional>
#include <string>

#include "base/api/tenants.h"
#include "base/http/router.h"
#include "server/http/http_guard.h"

namespace ampd::server {

// Functions that return the content of the pages. The HTTP listener calls them on its thread that runs the routes.
struct PageSources {
  // Returns the metrics that a scraper of these tenants may see, in the text format of Prometheus.
  std::function<std::string(const Tenants&)> metrics;
  // Returns the workers that a scraper of these tenants may see, in the JSON form of worker_targets.h.
  std::function<std::string(const Tenants&)> worker_targets;
  std::function<std::string()> what_fails;    // A line for each reason why the server is not ready.
  std::function<std::string()> what_is_dead;  // A line for each listener that accepts no connections.
};

// The routes of the server's HTTP listener, for GET and HEAD:
//
//   /metrics     the metrics, for callers with the right kScrape
//   /sd/workers  the addresses at which workers serve metrics, for callers with the right kScrape
//   /healthz     200, or 503 with a line for each listener that accepts no connections
//   /readyz      200, or 503 with a line for each reason why the server is not ready
//
// The router asks the guard before it serves a page. The guard must outlive the router.
http::Router ServerRoutes(const HttpGuard* guard, PageSources sources);

}  // namespace ampd::server
