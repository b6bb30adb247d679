#pragma once

#include <functional>
#include <string>

#include "http/router.h"

namespace ampd::server {

// What the server's HTTP listener answers: GET and HEAD of
//   /metrics  what `page` makes, in the text format of Prometheus
//   /healthz  200: the process answers
//   /readyz   200, or 503 with what `what_fails` says, while that is not empty
// Both are called on the listener's thread for routes.
http::Router ServerRoutes(std::function<std::string()> page, std::function<std::string()> what_fails);

}  // namespace ampd::server
