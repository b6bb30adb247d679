#include "server/monitoring/http_routes.h"

#include <utility>

namespace ampd::server {

http::Router ServerRoutes(std::function<std::string()> page, std::function<std::string()> what_fails) {
  http::Router router;
  router.Add("GET", "/metrics", [page = std::move(page)](const http::Request&) {
    return http::Response{.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = page(), .headers = {}};
  });
  router.Add("GET", "/healthz", [](const http::Request&) { return http::Text(200, "ok"); });
  router.Add("GET", "/readyz", [what_fails = std::move(what_fails)](const http::Request&) {
    const std::string lines = what_fails();
    return lines.empty() ? http::Text(200, "ready") : http::Response{.status = 503, .body = lines, .headers = {}};
  });
  return router;
}

}  // namespace ampd::server
