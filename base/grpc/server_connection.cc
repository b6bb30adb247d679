#include "base/grpc/server_connection.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

constexpr int64_t kMaxTokenFileBytes = 64 << 10;

bool IsOneWord(const std::string& token) {
  return std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
}

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string FirstGiven(const std::string& flag, const char* variable, const std::string& otherwise) {
  const std::string value = flag.empty() ? Environment(variable) : flag;
  return value.empty() ? otherwise : value;
}

absl::Status BadTokenFile(const std::string& path, const std::string& why) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_TOKEN_FILE",
               absl::StrCat("cannot read a token from ", path, ": ", why));
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxTokenFileBytes);
  if (!text.ok()) {
    return BadTokenFile(path, std::string(text.status().message()));
  }
  std::string token(absl::StripAsciiWhitespace(text->substr(0, text->find('\n'))));
  return token.empty() ? BadTokenFile(path, "its first line is empty") : absl::StatusOr<std::string>(std::move(token));
}

absl::StatusOr<std::string> TokenOf(const ConnectionFiles& flags, const ConnectionFiles& otherwise) {
  if (!flags.token.empty()) {
    return ReadTokenFile(flags.token);
  }
  std::string token = Environment("AMPD_TOKEN");
  return token.empty() && !otherwise.token.empty() ? ReadTokenFile(otherwise.token)
                                                   : absl::StatusOr<std::string>(token);
}

bool IsSocket(const std::string& address) { return address.starts_with("unix:"); }

}  // namespace

bool IsLocalAddress(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return IsSocket(address) || host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

absl::StatusOr<ServerConnection> ConnectionTo(const std::string& address, const ConnectionFiles& flags,
                                              const ConnectionFiles& otherwise) {
  ServerConnection connection{.address = address, .token = "", .tls = {}};
  if (!IsSocket(address)) {
    connection.tls = {.ca = FirstGiven(flags.tls.ca, "AMPD_CA", otherwise.tls.ca),
                      .certificate = FirstGiven(flags.tls.certificate, "AMPD_CERT", otherwise.tls.certificate),
                      .key = FirstGiven(flags.tls.key, "AMPD_KEY", otherwise.tls.key)};
  }
  if (!connection.tls.empty()) {
    AMPD_RETURN_IF_ERROR(CheckTlsFiles(connection.tls, /*needs_certificate=*/false));
  }
  AMPD_ASSIGN_OR_RETURN(connection.token, TokenOf(flags, otherwise));
  if (!IsOneWord(connection.token)) {
    return Error(absl::StatusCode::kInvalidArgument, "BAD_TOKEN",
                 "the token must be one word, as ampctl auth token create printed it");
  }
  if (!connection.token.empty() && connection.tls.empty() && !IsLocalAddress(address)) {
    return Error(absl::StatusCode::kInvalidArgument, "TOKEN_IN_THE_CLEAR",
                 absl::StrCat("the token is not sent to ", address,
                              " without TLS, because others could read it on the way; name the file of the server's CA "
                              "with --ca or AMPD_CA"));
  }
  return connection;
}

}  // namespace ampd
