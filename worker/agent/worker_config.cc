#include "worker/agent/worker_config.h"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/flags/flag_set.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace ampd::agent {
namespace {

namespace fs = std::filesystem;

Flag FileFlag(const std::string& name, const std::string& help) {
  return {.name = name, .type = "FILE", .help = help, .path = PathForm::kPath};
}

FlagSet::Take AppendTo(std::vector<std::string>* values) {
  return [values](const std::string& value) {
    values->push_back(value);
    return absl::OkStatus();
  };
}

// Adds the flags for the connection to the server, and for the worker's name and tenants.
void AddConnection(FlagSet* flags, WorkerConfig* config, bool for_worker) {
  flags->AddText({.name = "--server",
                  .type = "ADDRESS",
                  .help = "Server to work for: HOST:PORT, or unix:PATH of its socket",
                  .path = PathForm::kUnixAddress,
                  .is_required = for_worker},
                 &config->server);
  flags->AddText(
      FileFlag("--token-file", "File with the token to send to the server (default: the token itself from AMPD_TOKEN)"),
      &config->token_file);
  flags->AddText(FileFlag("--ca",
                          "File with the CA certificates for the server; the connection then has TLS (default: "
                          "AMPD_CA)"),
                 &config->tls.ca);
  flags->AddText(
      FileFlag("--cert", "File with the worker's certificate, for a server that asks for one (default: AMPD_CERT)"),
      &config->tls.certificate);
  flags->AddText(FileFlag("--key", "File with the key of the worker's certificate (default: AMPD_KEY)"),
                 &config->tls.key);
  flags->AddText({.name = "--name", .type = "NAME", .help = "Name of the worker (default: the host name)"},
                 &config->name);
  flags->AddRepeated({.name = "--tenant",
                      .type = "TENANT",
                      .help = "Run only jobs of this tenant (default: of all tenants that the worker's token or "
                              "certificate is for)"},
                     AppendTo(&config->tenants));
}

// Adds the flags that name folders.
void AddFolders(FlagSet* flags, WorkerConfig* config, bool for_worker) {
  flags->AddText({.name = "--state-dir",
                  .type = "PATH",
                  .help = "Folder for the state of this worker",
                  .path = PathForm::kPath,
                  .is_required = for_worker},
                 &config->state_folder);
  flags->AddText({.name = "--checkpoint-root",
                  .type = "PATH",
                  .help = "Folder for checkpoints (default: the folder checkpoints in --state-dir)",
                  .path = PathForm::kPath},
                 &config->checkpoint_root);
  flags->AddSwitch({.name = "--checkpoint-root-shared",
                    .help = "Declare that all workers of the server share this checkpoint root, so that jobs can move "
                            "between them"},
                   &config->checkpoint_root_shared);
  flags->AddRepeated({.name = "--data-root",
                      .type = "NAME=PATH",
                      .help = "NAME=PATH: let jobs read data from the folder PATH, under the name NAME. "
                              "NAME@TENANT=PATH: let only jobs of these tenants do so, such as NAME@nlp,vision",
                      .path = PathForm::kNamed},
                     AppendTo(&config->data_roots));
  flags->AddText({.name = "--data-group",
                  .type = "GROUP",
                  .help = "Let jobs also read files that only this Unix group (its name or number) may read (default: "
                          "only files that all users may read)"},
                 &config->data_group);
  flags->AddSize({.name = "--artifact-cache-bytes",
                  .type = "SIZE",
                  .help = "Maximum size of downloaded artifacts in --state-dir; artifacts in use are never deleted"},
                 &config->artifact_cache_bytes);
}

// Adds the flags for devices, and for the trainers that run on them.
void AddTrainers(FlagSet* flags, WorkerConfig* config) {
  flags->AddText(FileFlag("--shim", "Path of ampd-shim (default: in the folder of ampd-worker)"), &config->shim);
  flags->AddText(FileFlag("--trainer", "Path of ampd-trainer (default: in the folder of ampd-worker)"),
                 &config->trainer);
  flags->AddRepeated({.name = "--device",
                      .type = "DEVICE",
                      .help = "Offer only this device (cpu, gpu0, ...) (default: the CPU, and all GPUs that the "
                              "environment variable CUDA_VISIBLE_DEVICES does not hide)"},
                     AppendTo(&config->devices));
  flags->AddNumber({.name = "--threads",
                    .type = "N",
                    .help = "Number of threads of the CPU device (0 = one per core that the worker may use)"},
                   0, 4096, &config->num_threads);
  flags->AddSwitch(
      {.name = "--no-warm", .help = "Do not keep an idle trainer ready. This saves memory; each job then starts later"},
      &config->no_warm);
  flags->AddSwitch(
      {.name = "--stop-trainers-on-exit",
       .help = "On exit, let trainers save a checkpoint and end; kill those that still run after "
               "--exit-grace (default: trainers continue, and an ampd-worker that is soon started with the "
               "same --state-dir takes them over)"},
      &config->stop_trainers_on_exit);
  flags->AddSeconds({.name = "--exit-grace",
                     .type = "DURATION",
                     .help = "With --stop-trainers-on-exit: how long trainers may take to save a checkpoint before "
                             "they are killed. A number without a unit means seconds"},
                    &config->exit_grace);
}

// Adds the flags for monitoring: metrics, log and ready file.
void AddMonitoring(FlagSet* flags, WorkerConfig* config) {
  flags->AddText({.name = "--metrics-listen",
                  .type = "HOST:PORT",
                  .help = "Address of /metrics, /healthz and /readyz (default: not served). Without TLS it must be a "
                          "loopback address"},
                 &config->metrics_listen);
  flags->AddText(FileFlag("--metrics-tls-cert", "File with the certificate for TLS over --metrics-listen"),
                 &config->metrics_tls.certificate);
  flags->AddText(FileFlag("--metrics-tls-key", "File with the key of that certificate"), &config->metrics_tls.key);
  flags->AddText(FileFlag("--metrics-tls-client-ca",
                          "File with the CA certificates for scrapers. With TLS every scraper must have a certificate "
                          "of one of these CAs"),
                 &config->metrics_tls.ca);
  flags->AddSwitch({.name = "--no-gpu-metrics",
                    .help = "Leave the state of GPUs out of /metrics, for example where NVIDIA's dcgm-exporter runs"},
                   &config->no_gpu_metrics);
  flags->AddText(FileFlag("--ready-file",
                          "File that ampd-worker writes once the server has accepted it, for scripts that wait for "
                          "that. Its first line is the address of /metrics, and each further line is a device"),
                 &config->ready_file);
  flags->AddChoice({.name = "--log-format",
                    .type = "FORMAT",
                    .help = "Format of the log on stderr: text, or json (one object per line)"},
                   {"text", "json"}, &config->log_format);
  flags->AddChoice(
      {.name = "--log-level", .type = "LEVEL", .help = "Lowest level that is logged: debug, info, warning or error"},
      {"debug", "info", "warning", "error"}, &config->log_level);
}

// Returns the path of a program that is installed in the same folder as this one.
std::string ProgramBeside(const std::string& program) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? program : (self.parent_path() / program).string();
}

std::string AbsoluteOr(const std::string& path, const std::string& otherwise) {
  std::error_code error;
  return path.empty() ? otherwise : fs::absolute(path, error).string();
}

void FillDefaults(WorkerConfig* config) {
  config->state_folder = AbsoluteOr(config->state_folder, "");
  config->name = config->name.empty() ? HostName() : config->name;
  config->ready_file = AbsoluteOr(config->ready_file, "");
  config->shim = AbsoluteOr(config->shim, ProgramBeside("ampd-shim"));
  config->trainer = AbsoluteOr(config->trainer, ProgramBeside("ampd-trainer"));
  config->checkpoint_root = AbsoluteOr(config->checkpoint_root, config->state_folder + "/checkpoints");
}

// Refuses a path that is not UTF-8. The agent sends the paths of its folders to its trainers, in messages whose texts
// must be UTF-8.
absl::Status CheckPath(const char* flag, const std::string& path) {
  const std::optional<size_t> at = FirstInvalidUtf8(path);
  return at.has_value() ? absl::InvalidArgumentError(absl::StrCat(flag, " ", OneLine(path), ": ", NotUtf8(path, *at),
                                                                  "; choose a folder whose path is UTF-8"))
                        : absl::OkStatus();
}

// Adds all flags, and reads the command line. `for_worker`: whether to require the flags that a worker can't start
// without.
absl::StatusOr<ParsedWorkerConfig> Parse(FlagSet* flags, bool for_worker, int argc, const char* const* argv) {
  ParsedWorkerConfig parsed;
  AddConnection(flags, &parsed.config, for_worker);
  AddFolders(flags, &parsed.config, for_worker);
  AddTrainers(flags, &parsed.config);
  AddMonitoring(flags, &parsed.config);
  AMPD_ASSIGN_OR_RETURN(ParsedFlags read, flags->Parse(argc, argv));
  parsed.output = std::move(read.output);
  parsed.prints_config = read.prints_config;
  parsed.settings = std::move(read.settings);
  parsed.config_file = std::move(read.config_file);
  FillDefaults(&parsed.config);
  AMPD_RETURN_IF_ERROR(CheckPath("--state-dir", parsed.config.state_folder));
  AMPD_RETURN_IF_ERROR(CheckPath("--checkpoint-root", parsed.config.checkpoint_root));
  return parsed;
}

}  // namespace

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "worker";
}

absl::StatusOr<ParsedWorkerConfig> ParseWorkerConfig(int argc, const char* const* argv) {
  FlagSet flags("ampd-worker", "The worker agent of ampd: runs what the server assigns to this host.");
  flags.AddCommand("health", "Ask the worker of this host whether it is ready");
  return Parse(&flags, /*for_worker=*/true, argc, argv);
}

absl::StatusOr<ParsedWorkerConfig> ParseHealthConfig(int argc, const char* const* argv) {
  FlagSet flags(
      "ampd-worker health",
      "Ask the worker of this host whether it is ready, at its page /readyz. Give the --config or the flags of the "
      "worker, which must have a --metrics-listen. If that has TLS, also give --cert and --key with a certificate for "
      "scrapers, in place of the worker's. "
      "The exit code is 0 if the worker is ready, and 1 if it is not or does not answer.");
  return Parse(&flags, /*for_worker=*/false, argc, argv);
}

}  // namespace ampd::agent
