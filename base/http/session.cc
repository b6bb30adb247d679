#include "base/http/session.h"

#include "absl/strings/str_cat.h"

namespace ampd::http {
namespace {

std::string ToString(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

Request ToRequest(const boost::beast::http::request<boost::beast::http::string_body>& message) {
  const std::string target = ToString(message.target());
  const size_t question = target.find('?');
  Request request{.method = ToString(message.method_string()),
                  .path = target.substr(0, question),
                  .query = question == std::string::npos ? "" : target.substr(question + 1),
                  .headers = {},
                  .body = message.body(),
                  .peer = "",
                  .certificate_name = ""};
  for (const auto& field : message) {
    request.headers.push_back({ToString(field.name_string()), ToString(field.value())});
  }
  return request;
}

int StatusOf(const boost::system::error_code& error) {
  using Error = boost::beast::http::error;
  if (error == Error::header_limit || error == Error::buffer_overflow) {
    return 431;
  }
  if (error == Error::body_limit) {
    return 413;
  }
  const bool is_parse_error = error.category() == make_error_code(Error::bad_method).category();
  return is_parse_error && error != Error::end_of_stream && error != Error::partial_message ? 400 : 0;
}

std::string AddressOf(const boost::asio::ip::tcp::socket& socket) {
  boost::system::error_code error;
  const boost::asio::ip::tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) {
    return "unknown";
  }
  const std::string host = peer.address().to_string();
  return peer.address().is_v6() ? absl::StrCat("ipv6:[", host, "]:", peer.port())
                                : absl::StrCat("ipv4:", host, ":", peer.port());
}

}  // namespace ampd::http
