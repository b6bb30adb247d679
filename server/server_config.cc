#include "server/server_config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "base/version.h"

namespace ampd::server {
namespace {

// Adds a flag for a duration: 300ms, 10s, 1h30m, 30d.
void AddDuration(CLI::App* app, const char* name, const std::string& help, absl::Duration at_least,
                 absl::Duration* value) {
  CLI::Option* option = app->add_option_function<std::string>(
      name,
      [=](const std::string& text) {
        const std::optional<absl::Duration> parsed = ParseDuration(text);
        if (!parsed.has_value()) {
          throw CLI::ValidationError(name, NotADuration(text));
        }
        if (*parsed < at_least) {
          throw CLI::ValidationError(name, absl::StrCat("'", text, "' is less than ", absl::FormatDuration(at_least)));
        }
        *value = *parsed;
      },
      help);
  option->type_name("DURATION")->default_str(absl::FormatDuration(*value));
}

// Adds a flag for how long something is kept; zero means for ever.
void AddAge(CLI::App* app, const char* name, const std::string& help, absl::Duration* value) {
  constexpr absl::Duration kLongest = absl::Hours(24 * 365 * 100);
  AddDuration(app, name, help + " (0 = for ever)", absl::ZeroDuration(), value);
  app->get_option(name)->check([=](const std::string& text) {
    return ParseDuration(text).value_or(absl::ZeroDuration()) > kLongest
               ? absl::StrCat("'", text, "' is more than 100 years; 0 means for ever")
               : std::string();
  });
}

// Adds a flag for a size, such as 1048576, 256MiB or 2GB.
void AddSize(CLI::App* app, const char* name, const std::string& help, int64_t* value) {
  CLI::Option* option = app->add_option_function<std::string>(
      name,
      [=](const std::string& text) {
        const std::optional<int64_t> bytes = ParseByteCount(text);
        if (!bytes.has_value()) {
          throw CLI::ValidationError(name, NotAByteCount(text));
        }
        *value = *bytes;
      },
      help);
  option->type_name("SIZE")->default_str(ByteCountText(*value));
}

struct Addresses {
  std::string listen;
  std::string metrics_listen = "127.0.0.1:7071";
};

// Adds the flags that say where the server listens, and who may do what there.
void AddListeners(CLI::App* app, Addresses* addresses, ServerConfig* config) {
  app->add_option("--socket", config->socket,
                  "Path of the Unix socket of the gRPC API (default: ampd.sock in --data-dir). The kernel tells the "
                  "server which user connects. The server's own user and root are admins")
      ->type_name("PATH");
  app->add_option_function<std::vector<std::string>>(
         "--grant",
         [config](const std::vector<std::string>& grants) {
           for (const std::string& grant : grants) {
             if (const absl::Status added = config->grants.Add(grant); !added.ok()) {
               throw CLI::ValidationError("--grant", std::string(added.message()));
             }
           }
         },
         absl::StrCat("Give a role on the server to a user or a group of this host, or to the holders of certificates "
                      "whose common name matches: user:NAME=ROLE, uid:NUMBER=ROLE, group:NAME=ROLE, cert:NAME=ROLE. "
                      "The roles are ",
                      RoleNames(), ". May be given several times"))
      ->type_name("GRANT")
      ->allow_extra_args(false);
  app->add_option("--listen", addresses->listen,
                  "Address of the gRPC API besides the socket (port 0 picks a free port). Without TLS it must be of "
                  "loopback, and calls there need a token: ampctl auth token create")
      ->type_name("HOST:PORT");
  app->add_option("--tls-cert", config->tls.certificate,
                  "File with the server's certificate: TLS over --listen, for clients with certificates")
      ->type_name("FILE");
  app->add_option("--tls-key", config->tls.key, "File with the key of the server's certificate")->type_name("FILE");
  app->add_option("--tls-client-ca", config->tls.ca,
                  "File with the CA certificates that the certificates of clients and workers are checked against")
      ->type_name("FILE");
  app->add_flag("--allow-unauthenticated-loopback", config->trusts_loopback,
                "Let every user of this host control all jobs over --listen without a token");
  app->add_option("--proxy-socket", config->proxy_socket,
                  "Path of a Unix socket, in a folder that is closed to others, for a proxy that terminates TLS: "
                  "ampd-server init --proxy prints its configuration")
      ->type_name("PATH");
  app->add_option("--metrics-listen", addresses->metrics_listen,
                  "Loopback host:port of /metrics, /healthz and /readyz (port 0 picks a free port)")
      ->capture_default_str();
}

void AddOptions(CLI::App* app, ServerConfig* config) {
  app->add_option("--data-dir", config->data_dir,
                  "Folder for all data of the server, such as its journal; created if it is missing")
      ->required();
  app->add_option(
      "--port-file", config->port_file,
      "File to write once the server listens: the gRPC port in its first line, the metrics port in its second");
  AddDuration(app, "--lease", "Length of a worker's lease: how long the worker may run without hearing from the server",
              absl::Milliseconds(100), &config->lease);
  AddDuration(
      app, "--margin",
      "Extra time after a worker's lease has expired, before the server counts the worker as lost and gives its jobs "
      "to others",
      absl::Milliseconds(10), &config->lease_margin);
  AddDuration(app, "--suspend-limit",
              "How long a trainer whose lease has expired stays suspended, waiting for a new lease; then it is killed",
              absl::Seconds(0), &config->suspend_limit);
  AddDuration(app, "--local-checkpoint-wait",
              "How long a job waits for the return of a lost worker that has its checkpoints; then it starts over on "
              "another worker",
              absl::Seconds(0), &config->local_checkpoint_wait);
  AddAge(app, "--archive-after",
         "How long an ended job stays in memory. After that it is only on disk; all commands still work on it",
         &config->archive_after);
  AddAge(app, "--retention",
         "How long after a job's end its metrics, events, logs, samples, predictions and profiles are kept. After that "
         "the job itself is deleted too, once it has no checkpoint left",
         &config->retention);
  AddAge(
      app, "--checkpoint-retention",
      "How long after a job's end its checkpoints are kept, even the last one. By default they stay until ampctl job "
      "delete or ampctl checkpoint delete",
      &config->checkpoint_retention);
  AddAge(app, "--worker-retention", "How long a lost worker stays in the list of workers", &config->worker_retention);
  AddDuration(app, "--metrics-linger", "How long /metrics still shows a job after its end (0 = not at all)",
              absl::Seconds(0), &config->metrics_linger);
  AddDuration(app, "--drain-grace", "How long running calls may take to finish after SIGTERM", absl::Seconds(0),
              &config->drain_grace);
  app->add_option("--metrics-max-jobs", config->metrics_max_jobs,
                  "Maximum number of jobs that /metrics shows; running jobs come first")
      ->check(CLI::Range(0, 100'000))
      ->option_text(absl::StrCat("N=", config->metrics_max_jobs));
  AddSize(app, "--min-free-space", "Refuse new jobs while less space than this is free on the disk of --data-dir",
          &config->min_free_bytes);
  AddSize(app, "--reserve-space",
          "Disk space to reserve in --data-dir, so that jobs can be cancelled and can end even if the disk is full",
          &config->reserve_bytes);
  AddSize(app, "--artifact-quota-bytes", "Maximum disk space of all uploaded files and samples of jobs together",
          &config->artifact_quota_bytes);
  AddAge(app, "--artifact-retention",
         "How long an uploaded file is kept after the last request for it; files of jobs that have not ended are kept "
         "longer",
         &config->artifact_retention);
  app->add_option("--log-level", config->log_level,
                  "Lowest level that is logged to stderr: debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->option_text("LEVEL=" + config->log_level);
  app->add_option("--log-format", config->log_format,
                  "Format of the log on stderr: text, or json (one object per line)")
      ->check(CLI::IsMember({"text", "json"}))
      ->option_text("FORMAT=" + config->log_format);
  app->set_version_flag("--version", VersionLine("ampd-server"));
}

std::string FirstLine(std::string text) { return text.substr(0, text.find('\n')); }

// Reports an unknown flag first, because a misspelt flag also makes a required one missing.
std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> extra = app.remaining();
  const auto flag = std::find_if(extra.begin(), extra.end(), [](const auto& word) { return word.starts_with("--"); });
  return flag == extra.end() ? FirstLine(error.what()) : "there is no flag " + flag->substr(0, flag->find('='));
}

constexpr TlsFileOptions kTlsOptions = {.ca = "--tls-client-ca", .certificate = "--tls-cert", .key = "--tls-key"};

absl::Status CheckTls(const Addresses& addresses, const ServerConfig& config) {
  if (!config.proxy_socket.empty() && config.tls.ca.empty()) {
    return Error(absl::StatusCode::kInvalidArgument, "BAD_TLS_FILES",
                 "--proxy-socket needs --tls-client-ca: the CA certificates that those of clients are checked against");
  }
  if (config.tls.empty()) {
    return absl::OkStatus();
  }
  if (!config.proxy_socket.empty() && config.tls.certificate.empty() && config.tls.key.empty()) {
    return CheckTlsFiles(config.tls, /*needs_certificate=*/false, kTlsOptions);
  }
  if (addresses.listen.empty() || config.trusts_loopback) {
    return Error(absl::StatusCode::kInvalidArgument, "BAD_TLS_FILES",
                 addresses.listen.empty() ? "the files for TLS need an address: --listen HOST:PORT"
                                          : "with TLS nobody is trusted without a certificate, so leave out "
                                            "--allow-unauthenticated-loopback");
  }
  return CheckTlsFiles(config.tls, /*needs_certificate=*/true, kTlsOptions);
}

absl::Status ResolveAddresses(const Addresses& addresses, ServerConfig* config) {
  AMPD_RETURN_IF_ERROR(CheckTls(addresses, *config));
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
  AMPD_ASSIGN_OR_RETURN(config->metrics_listen, ParseLoopbackAddress("--metrics-listen", addresses.metrics_listen,
                                                                     "a proxy on this host can offer them to others"));
  return absl::OkStatus();
}

}  // namespace

ParsedConfig ParseServerConfig(int argc, const char* const* argv) {
  CLI::App app(
      "The server of ampd: accepts training jobs over gRPC and assigns them to workers. To prepare one for a network: "
      "ampd-server init --help and ampd-server cert --help",
      "ampd-server");
  ParsedConfig parsed;
  Addresses addresses;
  AddListeners(&app, &addresses, &parsed.config);
  AddOptions(&app, &parsed.config);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.output = app.help();
    return parsed;
  } catch (const CLI::CallForVersion&) {
    parsed.output = VersionLine("ampd-server");
    return parsed;
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = kExitUsage;
    parsed.output = absl::StrCat("ampd-server: ", WhatIsWrong(app, error), "; see ampd-server --help");
    return parsed;
  }
  if (absl::Status resolved = ResolveAddresses(addresses, &parsed.config); !resolved.ok()) {
    parsed.exit_code = kExitUsage;
    parsed.output = absl::StrCat("ampd-server: ", std::string(resolved.message()));
    return parsed;
  }
  parsed.run = true;
  return parsed;
}

int ExitCodeOf(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  if (status.ok()) {
    return kExitOk;
  }
  if (reason == "DATA_DIRECTORY_GONE") {
    return kExitDataGone;
  }
  if (reason == "ADDRESS_IN_USE" || reason == "ADDRESS_NOT_BINDABLE") {
    return kExitPort;
  }
  if (reason == "DATA_DIRECTORY_LOCKED" || reason == "DATA_DIRECTORY_UNUSABLE") {
    return kExitDataLocked;
  }
  if (reason == "NEWER_SCHEMA" || status.code() == absl::StatusCode::kDataLoss) {
    return kExitData;
  }
  return kExitInternal;
}

}  // namespace ampd::server
