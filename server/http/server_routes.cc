#include "server/http/server_routes.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ampd::server {
namespace {

using Page = std::function<http::Response(const Identity&)>;

// Adds a page that the guard checks before each request.
void AddPage(const HttpGuard* guard, const std::string& path, Page page, http::Router* router) {
  router->Add("GET", path,
              [=, name = absl::StrCat("GET ", path), page = std::move(page)](const http::Request& request) {
                const absl::StatusOr<Identity> caller = guard->Check(request, name);
                return caller.ok() ? page(*caller) : Refusal(caller.status());
              });
}

}  // namespace

http::Router ServerRoutes(const HttpGuard* guard, PageSources sources) {
  http::Router router;
  AddPage(
      guard, "/metrics",
      [metrics = std::move(sources.metrics)](const Identity& caller) {
        return http::Response{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                              .body = metrics(caller.TenantsWith(Right::kScrape)),
                              .headers = {}};
      },
      &router);
  AddPage(
      guard, "/sd/workers",
      [targets = std::move(sources.worker_targets)](const Identity& caller) {
        return http::Response{
            .content_type = "application/json", .body = targets(caller.TenantsWith(Right::kScrape)), .headers = {}};
      },
      &router);
  AddPage(
      guard, "/healthz",
      [what_is_dead = std::move(sources.what_is_dead)](const Identity&) {
        const std::string lines = what_is_dead();
        return lines.empty() ? http::Text(200, "ok") : http::Response{.status = 503, .body = lines, .headers = {}};
      },
      &router);
  AddPage(
      guard, "/readyz",
      [what_fails = std::move(sources.what_fails)](const Identity&) {
        const std::string lines = what_fails();
        return lines.empty() ? http::Text(200, "ready") : http::Response{.status = 503, .body = lines, .headers = {}};
      },
      &router);
  return router;
}

}  // namespace ampd::server
