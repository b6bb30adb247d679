#pragma once

#include <functional>
#include <string>

#include "base/http/router.h"
#include "base/tenants.h"
#include "server/http/http_guard.h"

namespace ampd::server {

// What the pages show. The functions are called on the listener's thread for routes.
struct PageSources {
  // For a scraper of these tenants; in the text format of Prometheus.
  std::function<std::string(const Tenants&)> metrics;
  // For the same; in the JSON form of worker_targets.h.
  std::function<std::string(const Tenants&)> worker_targets;
  std::function<std::string()> what_fails;    // Empty if the server is ready.
  std::function<std::string()> what_is_dead;  // Empty unless only a new start of the server helps.
};

// The routes of the server's HTTP listener, for GET and HEAD:
//
//   /metrics     the metrics, for callers with the right kScrape
//   /sd/workers  the addresses at which workers serve metrics, for the same callers
//   /healthz     200 if nothing is dead, otherwise 503 with a line for each reason
//   /readyz      200 if nothing fails, otherwise 503 with a line for each reason
//
// The guard, which outlives the router, is asked before every page.
http::Router ServerRoutes(const HttpGuard* guard, PageSources sources);

}  // namespace ampd::server
