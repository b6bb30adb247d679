#include "base/http/router.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace ampd::http {
namespace {

// Returns the router's answer as text, for example "200 text", followed by the Allow header if there is one.
std::string Answer(const Router& router, const std::string& method, const std::string& path) {
  const Response response = router.Answer({.method = method, .path = path, .query = {}, .headers = {}, .body = {}});
  std::string text = std::to_string(response.status) + " " + response.body;
  for (const Header& header : response.headers) {
    text += header.name + ": " + header.value;
  }
  return text;
}

TEST(Router, AnswersByMethodAndPath) {
  Router router;
  router.Add("GET", "/a", [](const Request&) { return Text(200, "got a"); });
  router.Add("POST", "/a", [](const Request&) { return Text(201, "made a"); });
  router.Add("GET", "/b", [](const Request& request) { return Text(200, request.path); });
  EXPECT_EQ(Answer(router, "GET", "/a"), "200 got a\n");
  EXPECT_EQ(Answer(router, "POST", "/a"), "201 made a\n");
  EXPECT_EQ(Answer(router, "GET", "/b"), "200 /b\n");
  EXPECT_EQ(Answer(router, "HEAD", "/b"), "200 /b\n") << "the listener leaves the body out";
}

TEST(Router, UnknownPathsAre404AndUnknownMethodsAre405WithThoseThatThereAre) {
  Router router;
  router.Add("GET", "/a", [](const Request&) { return Text(200, "a"); });
  EXPECT_EQ(Answer(router, "GET", "/a/"), "404 there is nothing at this path\n");
  EXPECT_EQ(Answer(router, "DELETE", "/other"), "404 there is nothing at this path\n");
  EXPECT_EQ(Answer(router, "DELETE", "/a"), "405 this path does not take the method\nAllow: GET, HEAD");
  EXPECT_EQ(Answer(router, "get", "/a"), "405 this path does not take the method\nAllow: GET, HEAD");
}

TEST(Router, ARouteThatThrowsIs500WithoutWhatItSays) {
  Router router;
  router.Add("GET", "/a", [](const Request&) -> Response { throw std::runtime_error("/var/secret"); });
  EXPECT_EQ(Answer(router, "GET", "/a"), "500 the server could not answer\n");
}

TEST(Request, FindsHeadersWhateverTheirCase) {
  const Request request{
      .method = "GET", .path = "/", .query = {}, .headers = {{"Accept", "text/plain"}, {"accept", "b"}}, .body = {}};
  EXPECT_EQ(request.Find("ACCEPT"), "text/plain");
  EXPECT_EQ(request.Find("Host"), "");
}

}  // namespace
}  // namespace ampd::http
