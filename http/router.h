#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Requests, responses, and who answers what. No sockets.
namespace ampd::http {

struct Header {
  std::string name;
  std::string value;
};

// What a client asks. Nothing in it was checked but its sizes.
struct Request {
  std::string method;  // "GET"
  std::string path;    // "/metrics", as it was sent: percent signs are not decoded
  std::string query;   // what follows the question mark; empty: none
  std::vector<Header> headers;
  std::string body;

  // The first header of the name, whatever its case; empty: there is none.
  std::string_view Find(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<Header> headers;  // beside Content-Type, Content-Length and Connection
};

// Answers one request. Is called on one thread, one request after the other.
using Route = std::function<Response(const Request&)>;

// Which route answers a method and path. Thread-compatible.
class Router {
 public:
  // A route for GET answers HEAD too, without its body. REQUIRES: there is none yet for the method and path.
  void Add(std::string_view method, std::string_view path, Route route);

  // Of the route; 404 when no route has the path, 405 with the header Allow when none has the method; 500 when the
  // route throws.
  Response Answer(const Request& request) const;

 private:
  std::map<std::string, std::map<std::string, Route, std::less<>>, std::less<>> routes_;  // by path, then method
};

// A response of one line of text.
Response Text(int status, std::string_view line);

}  // namespace ampd::http
