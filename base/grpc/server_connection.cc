#include "base/grpc/server_connection.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
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

std::string Environment(const char* name, const ConnectionDefaults& defaults) {
  const char* const value = defaults.reads_environment ? std::getenv(name) : nullptr;
  return value == nullptr ? "" : value;
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

// Returns the first of these texts that is not empty: the flag's value, the value in ampctl's context, the environment
// variable.
std::string FirstGiven(const std::string& flag, const std::string& of_context, const char* variable,
                       const ConnectionDefaults& defaults) {
  const std::string value = flag.empty() ? of_context : flag;
  return value.empty() ? Environment(variable, defaults) : value;
}

// Returns the token in the file that `flags` name. If they name none, uses the file that `defaults` name. If these name
// none either, returns the token in the environment, or an empty string if the environment has none.
absl::StatusOr<std::string> TokenOf(const ConnectionFiles& flags, const ConnectionDefaults& defaults) {
  const std::string file = flags.token.empty() ? defaults.files.token : flags.token;
  std::string token;
  if (file.empty()) {
    token = Environment("AMPD_TOKEN", defaults);
  } else {
    AMPD_ASSIGN_OR_RETURN(token, ReadTokenFile(file));
  }
  if (!IsOneWord(token)) {
    return Error(absl::StatusCode::kInvalidArgument, "BAD_TOKEN",
                 absl::StrCat("the token in ", file.empty() ? "AMPD_TOKEN" : file,
                              " must be one word, as ampctl auth token create printed it"));
  }
  return token;
}

// Appends to the error about a file what names this file: an option, the context or an environment variable.
absl::Status WithSource(const absl::Status& status, const ConnectionFiles& flags, const ConnectionDefaults& defaults) {
  struct Source {
    const std::string& flag;
    const std::string& of_context;
    const char* name;
    const char* variable;
  };
  const TlsFiles& tls = defaults.files.tls;
  const Source sources[] = {{flags.token, defaults.files.token, "token-file", ""},
                            {flags.tls.ca, tls.ca, "ca", "AMPD_CA"},
                            {flags.tls.certificate, tls.certificate, "cert", "AMPD_CERT"},
                            {flags.tls.key, tls.key, "key", "AMPD_KEY"}};
  for (const auto& [flag, of_context, name, variable] : sources) {
    const std::string file = FirstGiven(flag, of_context, variable, defaults);
    if (status.ok() || file.empty() || !absl::StrContains(status.message(), file + ": ")) {
      continue;
    }
    const std::string source = !flag.empty()         ? absl::StrCat("--", name)
                               : !of_context.empty() ? absl::StrCat("the ", name, " of the context in use")
                                                     : variable;
    return Error(status.code(), ReasonOf(status), absl::StrCat(status.message(), "; ", source, " names this file"));
  }
  return status;
}

}  // namespace

bool IsSocketAddress(const std::string& address) { return address.starts_with("unix:"); }

bool IsLocalAddress(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  in_addr v4 = {};
  // A name that only begins like a loopback address, such as 127.example.com, may be the name of another host.
  const bool is_v4_loopback = inet_pton(AF_INET, host.c_str(), &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
  return IsSocketAddress(address) || host == "localhost" || host == "::1" || host == "[::1]" || is_v4_loopback;
}

absl::StatusOr<ServerConnection> ConnectionTo(const std::string& address, const ConnectionFiles& flags,
                                              const ConnectionDefaults& defaults) {
  ServerConnection connection{.address = address, .token = "", .tls = {}};
  if (!IsSocketAddress(address)) {
    const TlsFiles& of_context = defaults.files.tls;
    connection.tls = {.ca = FirstGiven(flags.tls.ca, of_context.ca, "AMPD_CA", defaults),
                      .certificate = FirstGiven(flags.tls.certificate, of_context.certificate, "AMPD_CERT", defaults),
                      .key = FirstGiven(flags.tls.key, of_context.key, "AMPD_KEY", defaults)};
  }
  if (!connection.tls.empty()) {
    AMPD_RETURN_IF_ERROR(WithSource(CheckTlsFiles(connection.tls, /*needs_certificate=*/false), flags, defaults));
  }
  const auto token = TokenOf(flags, defaults);
  AMPD_RETURN_IF_ERROR(WithSource(token.status(), flags, defaults));
  connection.token = *token;
  if (!connection.token.empty() && connection.tls.empty() && !IsLocalAddress(address)) {
    return Error(absl::StatusCode::kInvalidArgument, "TOKEN_IN_THE_CLEAR",
                 absl::StrCat("the token is not sent to ", address,
                              " without TLS, because others could read it on the way; name the file of the server's CA "
                              "with --ca or AMPD_CA"));
  }
  return connection;
}

}  // namespace ampd
