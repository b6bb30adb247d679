#include "server/server_config.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/flags/flag_set.h"
#include "base/status_macros.h"
#include "server/server_commands.h"
#include "server/server_flags.h"

namespace ampd::server {
namespace {

constexpr TlsFileOptions kTlsOptions = {.ca = "--tls-client-ca", .certificate = "--tls-cert", .key = "--tls-key"};

constexpr TlsFileOptions kMetricsTlsOptions = {
    .ca = "--metrics-tls-client-ca", .certificate = "--metrics-tls-cert", .key = "--metrics-tls-key"};

absl::Status CheckTls(const ServerAddresses& addresses, const ServerConfig& config) {
  if (!config.proxy_socket.empty() && config.tls.ca.empty()) {
    return Error(
        absl::StatusCode::kInvalidArgument, "BAD_TLS_FILES",
        "--proxy-socket needs --tls-client-ca: the CA certificates with which the certificates of clients are checked");
  }
  if (config.tls.empty()) {
    return absl::OkStatus();
  }
  if (!config.proxy_socket.empty() && config.tls.certificate.empty() && config.tls.key.empty()) {
    return CheckTlsFiles(config.tls, /*needs_certificate=*/false, kTlsOptions);
  }
  if (addresses.listen.empty() || config.trusts_loopback) {
    return Error(absl::StatusCode::kInvalidArgument, "BAD_TLS_FILES",
                 addresses.listen.empty()
                     ? "the TLS files are only used with an address; give --listen HOST:PORT"
                     : "with TLS every client needs a certificate, so leave out --allow-unauthenticated-loopback");
  }
  return CheckTlsFiles(config.tls, /*needs_certificate=*/true, kTlsOptions);
}

absl::Status ResolveMetricsAddress(const std::string& address, ServerConfig* config) {
  if (config->metrics_tls.empty()) {
    AMPD_ASSIGN_OR_RETURN(config->metrics_listen,
                          ParseLoopbackAddress("--metrics-listen", address,
                                               "for other addresses give --metrics-tls-cert and --metrics-tls-key "
                                               "(docs/metrics.md)"));
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(CheckServerFiles(config->metrics_tls, kMetricsTlsOptions));
  AMPD_ASSIGN_OR_RETURN(config->metrics_listen, ParseListenAddress("--metrics-listen", address));
  return absl::OkStatus();
}

absl::Status ResolveAddresses(const ServerAddresses& addresses, ServerConfig* config) {
  AMPD_RETURN_IF_ERROR(CheckTls(addresses, *config));
  AMPD_RETURN_IF_ERROR(CheckOidcConfig(config->oidc));
  if (!addresses.listen.empty()) {
    AMPD_ASSIGN_OR_RETURN(
        config->listen, config->tls.certificate.empty()
                            ? ParseLoopbackAddress(
                                  "--listen", addresses.listen,
                                  "for other addresses give --tls-cert, --tls-key and --tls-client-ca (docs/access.md)")
                            : ParseListenAddress("--listen", addresses.listen));
  }
  if (config->socket.empty()) {
    config->socket = config->data_dir + "/ampd.sock";
  }
  return ResolveMetricsAddress(addresses.metrics_listen, config);
}

absl::StatusOr<ParsedConfig> Parse(int argc, const char* const* argv) {
  ParsedConfig parsed;
  ServerAddresses addresses;
  FlagSet flags("ampd-server",
                "The server of ampd: accepts training jobs over gRPC and assigns them to workers. Without a command it "
                "runs until it is stopped");
  AddServerFlags(&flags, &parsed.config, &addresses);
  for (const ServerCommand& command : kServerCommands) {
    flags.AddCommand(command.name, command.help);
  }
  AMPD_ASSIGN_OR_RETURN(ParsedFlags read, flags.Parse(argc, argv));
  if (!read.output.empty()) {
    parsed.output = read.output;
    return parsed;
  }
  parsed.settings = std::move(read.settings);
  parsed.config_file = std::move(read.config_file);
  if (const absl::Status resolved = ResolveAddresses(addresses, &parsed.config); !resolved.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(resolved.message()),
                     parsed.config_file.empty() ? "" : absl::StrCat(" (--config ", parsed.config_file, ")")));
  }
  if (read.prints_config) {
    AMPD_ASSIGN_OR_RETURN(parsed.output, WriteSettings(parsed.settings, "ampd-server"));
    parsed.output.pop_back();  // main.cc adds the last line break.
    return parsed;
  }
  parsed.run = true;
  return parsed;
}

}  // namespace

ParsedConfig ParseServerConfig(int argc, const char* const* argv) {
  absl::StatusOr<ParsedConfig> parsed = Parse(argc, argv);
  if (parsed.ok()) {
    return *std::move(parsed);
  }
  ParsedConfig failed;
  failed.exit_code = kExitUsage;
  failed.output = absl::StrCat("ampd-server: ", std::string(parsed.status().message()));
  return failed;
}

}  // namespace ampd::server
