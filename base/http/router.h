#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// HTTP requests, responses and the selection of routes. The sockets are in http/listener.h.
namespace ampd::http {

struct Header {
  std::string name;
  std::string value;
};

// A client's request. Its content is not validated; only its sizes have been limited.
struct Request {
  std::string method;  // "GET"
  std::string path;    // "/metrics", as it was sent: percent signs are not decoded.
  std::string query;   // The part after the question mark; empty if there is none.
  std::vector<Header> headers;
  std::string body;
  std::string peer;              // Address of the client: "ipv4:127.0.0.1:40000".
  std::string certificate_name;  // Common name of the client's certificate, which the listener trusts; empty: none.

  // The value of the first header with this name (upper and lower case are the same); empty if there is none.
  std::string_view Find(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<Header> headers;  // Headers other than Content-Type, Content-Length and Connection.
};

// Answers one request. Called on one thread, one request after another.
using Route = std::function<Response(const Request&)>;

// Selects the route for a method and path. Thread-compatible.
class Router {
 public:
  // Adds a route. A route for GET also answers HEAD, without the body. REQUIRES: the method and path have no route yet.
  void Add(std::string_view method, std::string_view path, Route route);

  // The paths that have a route.
  std::vector<std::string> paths() const;

  // Returns the route's response. Returns 404 if the request's path has no route, 405 with the header Allow if it has
  // routes but none for the method, and 500 if the route throws.
  Response Answer(const Request& request) const;

 private:
  std::map<std::string, std::map<std::string, Route, std::less<>>, std::less<>> routes_;  // Keyed by path, then method.
};

// Makes a response with this status whose body is one line of text.
Response Text(int status, std::string_view line);

}  // namespace ampd::http
