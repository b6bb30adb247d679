#include "base/http/router.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ampd::http {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

std::string_view Request::Find(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(), [name](const Header& header) {
    return absl::EqualsIgnoreCase(header.name, View(name));
  });
  return found == headers.end() ? std::string_view() : found->value;
}

Response Text(int status, std::string_view line) {
  return {.status = status, .body = absl::StrCat(View(line), "\n"), .headers = {}};
}

void Router::Add(std::string_view method, std::string_view path, Route route) {
  auto& methods = routes_[std::string(path)];
  if (method == "GET") {
    methods.emplace("HEAD", route);
  }
  methods.emplace(std::string(method), std::move(route));
}

std::vector<std::string> Router::paths() const {
  std::vector<std::string> paths;
  for (const auto& [path, methods] : routes_) {
    paths.push_back(path);
  }
  return paths;
}

Response Router::Answer(const Request& request) const {
  const auto path = routes_.find(request.path);
  if (path == routes_.end()) {
    return Text(404, "there is nothing at this path");
  }
  const auto route = path->second.find(request.method);
  if (route == path->second.end()) {
    Response refused = Text(405, "this path does not take the method");
    const auto name = [](std::string* out, const auto& entry) { out->append(entry.first); };
    refused.headers.push_back({"Allow", absl::StrJoin(path->second, ", ", name)});
    return refused;
  }
  try {
    return route->second(request);
  } catch (const std::exception&) {  // Its message is not sent: it may name files.
    return Text(500, "the server could not answer");
  }
}

}  // namespace ampd::http
