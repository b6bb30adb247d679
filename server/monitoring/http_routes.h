#pragma once

#include <functional>
#include <string>

#include "http/router.h"

namespace ampd::server {

// The routes of the server's HTTP listener, for GET and HEAD:
//
//   /metrics  the result of `page`, in the text format of Prometheus
//   /healthz  200: the process answers
//   /readyz   200 if `what_fails` returns an empty text, otherwise 503 with that text
//
// Both functions are called on the listener's thread for routes.
http::Router ServerRoutes(std::function<std::string()> page, std::function<std::string()> what_fails);

}  // namespace ampd::server
