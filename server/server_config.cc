#include "server/server_config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/version.h"

namespace ampd::server {
namespace {

// Adds a flag for a duration in the format of Go and systemd: 300ms, 10s, 5m, 1h30m.
void AddDuration(CLI::App* app, const char* name, const std::string& help, absl::Duration at_least,
                 absl::Duration* value) {
  CLI::Option* option = app->add_option_function<std::string>(
      name,
      [=](const std::string& text) {
        absl::Duration parsed;
        if (!absl::ParseDuration(text, &parsed) || parsed < at_least) {
          throw CLI::ValidationError(name, absl::StrCat("'", text, "' is not a duration of at least ",
                                                        absl::FormatDuration(at_least), ", such as 10s or 1h30m"));
        }
        *value = parsed;
      },
      help);
  option->type_name("DURATION")->default_str(absl::FormatDuration(*value));
}

// Adds a flag for the age at which something is deleted; zero means never.
void AddAge(CLI::App* app, const char* name, const std::string& help, absl::Duration* value) {
  constexpr absl::Duration kLongest = absl::Hours(24 * 365 * 100);
  AddDuration(app, name, help + "; 0 is never", absl::ZeroDuration(), value);
  app->get_option(name)->check([=](const std::string& text) {
    absl::Duration parsed;
    return absl::ParseDuration(text, &parsed) && parsed > kLongest
               ? absl::StrCat("'", text, "' is more than 100 years; 0 is never")
               : std::string();
  });
}

// Adds a flag for a size, such as 1048576, 256MiB or 2GB; units are powers of 1024.
void AddSize(CLI::App* app, const char* name, const char* help, int64_t* value) {
  app->add_option(name, *value, help)
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 60))
      ->option_text(absl::StrCat("BYTES=", *value));
}

struct Addresses {
  std::string listen = "127.0.0.1:7070";
  std::string metrics_listen = "127.0.0.1:7071";
};

void AddOptions(CLI::App* app, Addresses* addresses, ServerConfig* config) {
  app->add_option("--listen", addresses->listen, "Loopback host:port of the gRPC API; port 0 lets the system choose")
      ->capture_default_str();
  app->add_option("--metrics-listen", addresses->metrics_listen, "Loopback host:port of /metrics, /healthz and /readyz")
      ->capture_default_str();
  app->add_option("--data-dir", config->data_dir, "Folder of journal and metric store; made when it is missing")
      ->required();
  app->add_option("--port-file", config->port_file,
                  "Write the bound ports here once the server listens: gRPC, then metrics, a line each");
  AddDuration(app, "--lease", "How long a worker may run without hearing from the server", absl::Milliseconds(100),
              &config->lease);
  AddDuration(app, "--margin", "Time after a worker's lease has expired until the worker counts as lost",
              absl::Milliseconds(10), &config->lease_margin);
  AddDuration(app, "--suspend-limit", "How long a trainer whose lease ran out waits for a new one", absl::Seconds(0),
              &config->suspend_limit);
  AddDuration(app, "--local-checkpoint-wait", "How long a job waits for the worker that has its checkpoints",
              absl::Seconds(0), &config->local_checkpoint_wait);
  AddAge(app, "--archive-after",
         "How long after its end a job leaves memory for the history table on disk, where it is found as before",
         &config->archive_after);
  AddAge(app, "--retention",
         "How long after a job's end its points, events, logs and samples are deleted, and its record too if it has no "
         "checkpoint left",
         &config->retention);
  AddAge(app, "--checkpoint-retention",
         "How long after a job's end its checkpoints are deleted, the last one too. Without this flag they stay until "
         "ampctl job delete or ampctl checkpoint delete",
         &config->checkpoint_retention);
  AddAge(app, "--worker-retention", "How long after its loss a worker is removed from the list",
         &config->worker_retention);
  AddDuration(app, "--metrics-linger", "How long series of a finished job stay in /metrics; 0 is not at all",
              absl::Seconds(0), &config->metrics_linger);
  AddDuration(app, "--drain-grace", "How long calls under way may take after SIGTERM", absl::Seconds(0),
              &config->drain_grace);
  app->add_option("--metrics-max-jobs", config->metrics_max_jobs, "Most jobs with series of their own in /metrics")
      ->check(CLI::Range(0, 100'000))
      ->option_text(absl::StrCat("N=", config->metrics_max_jobs));
  AddSize(app, "--min-free-space", "New jobs are refused while the data directory's disk has less room than this",
          &config->min_free_bytes);
  AddSize(app, "--reserve-space", "Room kept in the data directory for cancels and ends on a full disk",
          &config->reserve_bytes);
  AddSize(app, "--artifact-quota-bytes", "Most that uploaded files and the samples of jobs may take on disk",
          &config->artifact_quota_bytes);
  AddAge(app, "--artifact-retention",
         "How long after the last request for it an uploaded file that no live job names is deleted",
         &config->artifact_retention);
  app->add_option("--log-level", config->log_level, "What goes to stderr: debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->option_text("LEVEL=" + config->log_level);
  app->add_option("--log-format", config->log_format, "How lines on stderr look: text, or json, an object a line")
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

absl::Status ResolveAddresses(const Addresses& addresses, ServerConfig* config) {
  AMPD_ASSIGN_OR_RETURN(config->listen, ParseListenAddress("--listen", addresses.listen));
  AMPD_ASSIGN_OR_RETURN(config->metrics_listen, ParseListenAddress("--metrics-listen", addresses.metrics_listen));
  return absl::OkStatus();
}

}  // namespace

ParsedConfig ParseServerConfig(int argc, const char* const* argv) {
  CLI::App app("The scheduler of ampd: accepts training jobs over gRPC and assigns them to workers.", "ampd-server");
  ParsedConfig parsed;
  Addresses addresses;
  AddOptions(&app, &addresses, &parsed.config);
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
