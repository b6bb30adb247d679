#include "client/terminal/server_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace ampd::client {
namespace {

constexpr char kDefaultPort[] = ":7070";
constexpr char kSocketScheme[] = "unix:";

// Returns the part of the user's text for an error message.
std::string Part(std::string_view text) {
  constexpr size_t kMaxPartBytes = 80;
  return Shortened(text, kMaxPartBytes);
}

bool IsPort(const std::string& text) {
  int port = 0;
  return absl::SimpleAtoi(text, &port) && port >= 1 && port <= 65535;
}

// Whether the text is an IPv6 address without brackets. It may end in the zone of a link-local address: fe80::1%eth0.
bool IsIpv6(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> bytes = {};
  return inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), bytes.data()) == 1;
}

// Returns the address that was probably meant by an IPv6 address without brackets: "[::1]:7070" for "::1:7070" and for
// "::1". The last number is taken for a port if it has three digits or more. Empty if the text has no IPv6 address.
std::string WithBrackets(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  if (IsIpv6(host) && IsPort(port) && port.size() > 2) {
    return absl::StrCat("[", host, "]:", port);
  }
  return IsIpv6(text) ? absl::StrCat("[", text, "]", kDefaultPort) : "";
}

// Returns what is wrong with an address that has brackets or several colons, as an IPv6 address has; "" if it is right.
std::string WhyNoIpv6(const std::string& text) {
  const std::string form = "write [ADDRESS]:PORT, such as [::1]:7070";
  if (text.front() != '[') {
    const std::string meant = WithBrackets(text);
    return meant.empty() ? "has more than one ':' or a bracket; write HOST:PORT, or [ADDRESS]:PORT for an IPv6 address"
                         : absl::StrCat("has an IPv6 address without brackets; write ", Part(meant));
  }
  const size_t end = text.find(']');
  if (end == std::string::npos) {
    const std::string meant = WithBrackets(text.substr(1));
    return absl::StrCat("has no ']' after the IPv6 address; ", meant.empty() ? form : "write " + Part(meant));
  }
  const std::string host = text.substr(1, end - 1);
  if (!IsIpv6(host)) {
    return absl::StrCat("has '", Part(host), "' in brackets, which is no IPv6 address; ", form);
  }
  const std::string port = text.substr(end + 1);
  if (port.empty() || port == ":") {
    return absl::StrCat("has no port; write HOST:PORT, such as ", Part(text.substr(0, end + 1)), kDefaultPort);
  }
  if (port.front() != ':') {
    return absl::StrCat("has '", Part(port), "' after the brackets; ", form);
  }
  return IsPort(port.substr(1))
             ? ""
             : absl::StrCat("has the port '", Part(port.substr(1)), "'; a port is a number from 1 to 65535");
}

// Returns what is wrong with the address of a socket; "" if it is right.
std::string WhyNoSocket(const std::string& text) {
  const std::string path = text.substr(sizeof(kSocketScheme) - 1);
  // In unix://tmp/x, gRPC reads tmp as the name of a host.
  if (path.starts_with("//") && path.find_first_not_of('/') == 2) {
    return absl::StrCat("has two slashes after unix:, as a URL has; write unix:", Part(path.substr(1)));
  }
  const bool is_path = path.size() > 1 && path.front() == '/' && path.find_first_of(" \t\r\n") == std::string::npos;
  return is_path ? "" : "must have the absolute path of a socket, without blanks, after unix:";
}

// Returns what is wrong with the text as the address of a server; "" if it is right.
std::string FaultOf(const std::string& text) {
  if (text.starts_with(kSocketScheme)) {
    return WhyNoSocket(text);
  }
  if (const size_t scheme = text.find("://"); scheme != std::string::npos) {
    return absl::StrCat("begins with ", Part(text.substr(0, scheme + 3)), "; write only HOST:PORT",
                        text.starts_with("https:") ? ", and name the file of the server's CA with --ca" : "");
  }
  if (text.find_first_of(" \t\r\n/") != std::string::npos) {
    return "has a blank or a '/'; write HOST:PORT or unix:/PATH";
  }
  if (text.find_first_of("[]") != std::string::npos || std::count(text.begin(), text.end(), ':') > 1) {
    return WhyNoIpv6(text);
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    return absl::StrCat("has no port; write HOST:PORT, such as ", Part(text), kDefaultPort);
  }
  if (colon == 0) {
    return "has no host before the port; write HOST:PORT";
  }
  const std::string port = text.substr(colon + 1);
  return IsPort(port) ? "" : absl::StrCat("has the port '", Part(port), "'; a port is a number from 1 to 65535");
}

}  // namespace

bool IsServerAddress(const std::string& text) { return FaultOf(text).empty(); }

std::string WhyNoAddress(const std::string& text) { return FaultOf(text); }

absl::Status CheckIsNoOtherFile(const std::string& address, const std::string& subject) {
  if (!address.starts_with(kSocketScheme)) {
    return absl::OkStatus();
  }
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::status(address.substr(sizeof(kSocketScheme) - 1), error);
  if (!std::filesystem::exists(there) || std::filesystem::is_socket(there)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      subject, " names a ", std::filesystem::is_directory(there) ? "folder" : "file",
      " and not a socket; name the socket on which the server listens (the flag --socket of ampd-server)"));
}

}  // namespace ampd::client
