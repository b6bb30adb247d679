// ampd-worker: the agent of one host. `ampd-worker health` asks a running agent whether it is ready
// (worker/agent/health.h).
//
// Exit codes: 0 ended by SIGTERM or SIGINT; 2 wrong usage; 3 the state folder or the checkpoint root can't be used or
// trusted, or another agent holds the state folder; 4 can't listen at an address.
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/api/worker_name.h"
#include "base/clock.h"
#include "base/flags/reloader.h"
#include "base/grpc/grpc_log.h"
#include "base/grpc/name_resolution.h"
#include "base/grpc/server_connection.h"
#include "base/io/listen_address.h"
#include "base/ipc/signals.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/tls/tls_files.h"
#include "base/version.h"
#include "worker/agent/agent.h"
#include "worker/agent/artifacts/artifact_cache.h"
#include "worker/agent/artifacts/artifact_client.h"
#include "worker/agent/data_roots.h"
#include "worker/agent/files/file_sender.h"
#include "worker/agent/files/file_uplink_client.h"
#include "worker/agent/health.h"
#include "worker/agent/link/attach_client.h"
#include "worker/agent/metrics.h"
#include "worker/agent/ready_file.h"
#include "worker/agent/state_folder.h"
#include "worker/agent/worker_config.h"
#include "worker/device/device_reader.h"
#include "worker/device/devices.h"
#include "worker/device/gpu_monitor.h"

namespace {

constexpr int kUsage = 2;
constexpr int kStateFolder = 3;
constexpr int kAddress = 4;

using ampd::agent::WorkerConfig;

void Log(const std::string& line) { ampd::Log(spdlog::level::info, line); }
void Warn(const std::string& line) { ampd::Log(spdlog::level::warn, line); }

// Reports why the program can't start, in one line on stderr. The line is JSON if the log is JSON.
int Fail(int code, const std::string& line, const std::string& log_format = "text") {
  if (log_format == "json") {
    ampd::Log(spdlog::level::critical, line);
  } else {
    std::fprintf(stderr, "ampd-worker: %s\n", line.c_str());
  }
  return code;
}

// Returns the id of the host's group that `text` names, by name or number.
absl::StatusOr<gid_t> ParseGroup(const std::string& text) {
  std::string buffer(size_t{1} << 16, '\0');
  struct group found = {};
  struct group* result = nullptr;
  if (getgrnam_r(text.c_str(), &found, buffer.data(), buffer.size(), &result) == 0 && result != nullptr) {
    return found.gr_gid;
  }
  gid_t number = 0;
  return absl::SimpleAtoi(text, &number)
             ? absl::StatusOr<gid_t>(number)
             : absl::InvalidArgumentError(absl::StrCat("--data-group ", text, ": this host has no such group"));
}

// The address on which to serve the metrics; nullopt if they are not served. Checks the address and the files for TLS.
absl::StatusOr<std::optional<ampd::ListenAddress>> MetricsAddress(const WorkerConfig& config) {
  if (config.metrics_listen.empty() && config.metrics_tls.empty()) {
    return std::nullopt;
  }
  if (config.metrics_tls.empty()) {
    return ampd::ParseLoopbackAddress(
        "--metrics-listen", config.metrics_listen,
        "for other addresses give --metrics-tls-cert, --metrics-tls-key and --metrics-tls-client-ca (docs/metrics.md)");
  }
  if (config.metrics_listen.empty()) {
    return absl::InvalidArgumentError("the TLS files are only used with an address; give --metrics-listen HOST:PORT");
  }
  AMPD_RETURN_IF_ERROR(ampd::CheckTlsFiles(
      config.metrics_tls, /*needs_certificate=*/true,
      {.ca = "--metrics-tls-client-ca", .certificate = "--metrics-tls-cert", .key = "--metrics-tls-key"}));
  return ampd::ParseListenAddress("--metrics-listen", config.metrics_listen);
}

absl::Status CheckProgram(const std::string& path, const char* flag) {
  return access(path.c_str(), X_OK) == 0 ? absl::OkStatus()
                                         : absl::InvalidArgumentError(absl::StrCat(flag, ": can't execute ", path));
}

// The files, folders and groups that the configuration names, after they were checked and read.
struct Inputs {
  ampd::ServerConnection server;
  ampd::agent::DataRoots data_roots;
  std::vector<std::string> tenants;
  std::optional<gid_t> data_group;
  std::optional<ampd::ListenAddress> metrics;
};

// Checks that the files, folders, programs and groups in the configuration exist, and reads them. INVALID_ARGUMENT,
// with a message of one line, if something is wrong.
absl::StatusOr<Inputs> ReadInputs(const WorkerConfig& config) {
  if (const absl::Status name = ampd::CheckWorkerName(config.name); !name.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--name (default: the host name) ", std::string(name.message())));
  }
  Inputs inputs;
  AMPD_ASSIGN_OR_RETURN(inputs.server, ampd::ConnectionTo(config.server, {config.token_file, config.tls}));
  AMPD_ASSIGN_OR_RETURN(inputs.data_roots, ampd::agent::ParseDataRoots(config.data_roots));
  AMPD_ASSIGN_OR_RETURN(inputs.tenants, ampd::agent::ParseTenants(config.tenants));
  if (!config.data_group.empty()) {
    AMPD_ASSIGN_OR_RETURN(inputs.data_group, ParseGroup(config.data_group));
  }
  AMPD_RETURN_IF_ERROR(CheckProgram(config.shim, "--shim"));
  AMPD_RETURN_IF_ERROR(CheckProgram(config.trainer, "--trainer"));
  AMPD_ASSIGN_OR_RETURN(inputs.metrics, MetricsAddress(config));
  return inputs;
}

absl::StatusOr<ampd::device::Devices> FindDevices(const WorkerConfig& config) {
  ampd::device::Devices::Options options;
  options.num_threads = config.num_threads;
  options.only = config.devices;
  const char* const visible_gpus = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible_gpus != nullptr) {
    options.visible_gpus = visible_gpus;
  }
  absl::StatusOr<ampd::device::Devices> devices = ampd::device::Devices::Discover(options);
  if (devices.ok() && devices->num_hidden() > 0) {
    Log(absl::StrCat("CUDA_VISIBLE_DEVICES is '", ampd::Shortened(ampd::OneLine(visible_gpus), 200), "' and hides ",
                     devices->num_hidden(), devices->num_hidden() == 1 ? " GPU" : " GPUs"));
  }
  return devices;
}

// An error at the start, and the exit code that belongs to it.
struct Failure {
  int code = 0;
  absl::Status status;
};

// Opens the state folder and stores it in `state_folder`; from then on no other agent can open it. Then removes the
// ready file that an earlier worker left, and prepares the checkpoint root. Returns nullopt if there was no error.
std::optional<Failure> PrepareFolders(const WorkerConfig& config,
                                      std::optional<ampd::agent::StateFolder>* state_folder) {
  absl::StatusOr<ampd::agent::StateFolder> opened =
      ampd::agent::StateFolder::Open(config.state_folder, ampd::SystemRandom());
  if (!opened.ok()) {
    return Failure{kStateFolder, opened.status()};
  }
  *state_folder = *std::move(opened);
  const absl::Status removed =
      config.ready_file.empty() ? absl::OkStatus() : ampd::agent::RemoveReadyFile(config.ready_file);
  if (!removed.ok()) {
    return Failure{kUsage, absl::InvalidArgumentError(
                               absl::StrCat("--ready-file ", config.ready_file, ": ", std::string(removed.message())))};
  }
  // Depth 1 checks the root and the folders of jobs in it. Other users can reach everything below only through these
  // folders, so no deeper check is needed.
  const auto checkpoints = ampd::agent::PrepareFolder(config.checkpoint_root, "the checkpoint root", /*depth=*/1);
  if (!checkpoints.ok()) {
    return Failure{kStateFolder, checkpoints.status()};
  }
  for (const auto* lines : {&(*state_folder)->lines(), &*checkpoints}) {
    std::for_each(lines->begin(), lines->end(), Warn);
  }
  return std::nullopt;
}

// Converts the configuration to the agent's options. RunWorker and RunAgent set the remaining options.
ampd::agent::Agent::Options OptionsOf(const WorkerConfig& config, const Inputs& inputs, const std::string& agent_id) {
  ampd::agent::Agent::Options options;
  options.name = config.name;
  options.version = ampd::Version();
  options.identity.set_id(agent_id);
  options.identity.set_place(ampd::agent::PlaceOf(ampd::agent::HostName(), config.state_folder));
  options.state_folder = config.state_folder;
  options.ready_file = config.ready_file;
  options.checkpoint_root = config.checkpoint_root;
  options.checkpoint_root_shared = config.checkpoint_root_shared;
  options.data_roots = inputs.data_roots;
  options.tenants = inputs.tenants;
  options.data_group = inputs.data_group;
  options.command = {config.shim, {config.trainer}};
  options.warm = !config.no_warm;
  options.stop_trainers_on_exit = config.stop_trainers_on_exit;
  options.exit_grace = config.exit_grace;
  options.log = Log;
  options.log_attempt = [](const std::string& line, const ampd::LogFields& fields) {
    ampd::Log(spdlog::level::info, line, fields);
  };
  options.clock = &ampd::SystemClock();
  options.random = &ampd::SystemRandom();
  return options;
}

// Reads the command line and the configuration file again, for a running worker. Only the worker's log level can
// change.
absl::StatusOr<ampd::ReadConfig> ReadAgain(int argc, char** argv) {
  AMPD_ASSIGN_OR_RETURN(const ampd::agent::ParsedWorkerConfig parsed, ampd::agent::ParseWorkerConfig(argc, argv));
  AMPD_RETURN_IF_ERROR(ReadInputs(parsed.config).status());
  return ampd::ReadConfig{.settings = parsed.settings, .log_level = parsed.config.log_level};
}

// Parts of the process that run on other threads than the agent's.
struct Surroundings {
  ampd::SignalThread* signals = nullptr;
  std::shared_ptr<ampd::Reloader> reloader;
};

// Runs the agent until a signal ends it.
void RunAgent(const WorkerConfig& config, const ampd::ServerConnection& server, ampd::agent::Agent::Options options,
              const Surroundings& around) {
  ampd::agent::AttachClient link({server, Warn});
  options.link = &link;
  ampd::agent::ArtifactClient source(server);
  ampd::agent::ArtifactCache::Options cache;
  cache.folder = config.state_folder + "/artifacts";
  cache.max_bytes = config.artifact_cache_bytes;
  cache.source = &source;
  cache.clock = &ampd::SystemClock();
  cache.log = Log;
  ampd::agent::ArtifactCache artifacts(std::move(cache));
  options.artifacts = &artifacts;
  ampd::agent::FileUplinkClient uplink(server);
  ampd::agent::FileSender files({.root = config.checkpoint_root, .uplink = &uplink, .log = Log});
  options.files = &files;
  // Shared with the signal thread, because that thread may call Stop after Run has returned.
  const auto agent = std::make_shared<ampd::agent::Agent>(options);
  agent->Start();
  around.signals->Start([agent, reloader = around.reloader](int signal) {
    if (signal == SIGHUP) {
      reloader->Reload();
    } else {
      agent->Stop();
    }
  });
  link.Start();
  artifacts.Start();
  Log(absl::StrCat("worker ", config.name, " started for server ", config.server,
                   options.metrics_address.empty() ? "" : absl::StrCat(", metrics at ", options.metrics_address)));
  agent->Run();
}

// The worker's metrics endpoint, and the sources of its numbers.
struct Monitoring {
  ampd::agent::AgentCounters counters;
  ampd::agent::TrainingTimes times;
  std::unique_ptr<ampd::device::GpuMonitor> gpus;
  std::unique_ptr<ampd::agent::MetricsEndpoint> endpoint;
  std::string address;  // Empty if the metrics are not served.

  // `devices`: the ids of the worker's devices.
  absl::Status Start(const WorkerConfig& config, const std::vector<std::string>& devices,
                     const std::optional<ampd::ListenAddress>& listen) {
    if (!listen.has_value()) {
      return absl::OkStatus();
    }
    gpus = config.no_gpu_metrics ? nullptr : ampd::device::GpuMonitor::Open(devices);
    AMPD_ASSIGN_OR_RETURN(
        endpoint, ampd::agent::MetricsEndpoint::Listen(
                      *listen, config.metrics_tls,
                      {.version = ampd::Version(),
                       .counters = &counters,
                       .times = &times,
                       .clock = &ampd::SystemClock(),
                       .gpus = gpus.get(),
                       .worker = config.name,
                       .host = {.folders = {{"state", config.state_folder}, {"checkpoints", config.checkpoint_root}},
                                .certificates = {{"server-ca", config.tls.ca},
                                                 {"client", config.tls.certificate},
                                                 {"metrics", config.metrics_tls.certificate},
                                                 {"metrics-client-ca", config.metrics_tls.ca}}}}));
    address = ampd::ListenAddress{listen->host, endpoint->port()}.ToString();
    return absl::OkStatus();
  }
};

// Sets up everything that the agent needs, and runs the agent until a signal ends it. Returns nullopt after that, or a
// failure if the agent could not be started.
std::optional<Failure> RunWorker(const WorkerConfig& config, const Inputs& inputs, const Surroundings& around) {
  absl::StatusOr<ampd::device::Devices> devices = FindDevices(config);
  if (!devices.ok()) {
    return Failure{kUsage, devices.status()};
  }
  std::optional<ampd::agent::StateFolder> state_folder;
  if (std::optional<Failure> failure = PrepareFolders(config, &state_folder); failure.has_value()) {
    return failure;
  }
  const std::vector<std::string> device_ids = devices->ids();
  ampd::device::DeviceReader reader(*std::move(devices));
  reader.Start();
  Monitoring monitoring;
  if (const absl::Status started = monitoring.Start(config, device_ids, inputs.metrics); !started.ok()) {
    return Failure{kAddress, started};
  }
  ampd::agent::Agent::Options options = OptionsOf(config, inputs, state_folder->agent_id());
  options.devices = [&reader] { return reader.Current(ampd::SystemClock().SinceBoot()); };
  options.counters = &monitoring.counters;
  options.times = &monitoring.times;
  options.metrics_address = monitoring.address;
  RunAgent(config, inputs.server, std::move(options), around);
  if (!reader.Stop()) {
    Warn("a call of the GPU's driver does not return; the worker ends without it");
    std::_Exit(0);
  }
  return std::nullopt;
}

int PrintConfig(const ampd::Settings& settings, const std::string& log_format) {
  const absl::StatusOr<std::string> text = ampd::WriteSettings(settings, "ampd-worker");
  if (!text.ok()) {
    return Fail(kUsage, std::string(text.status().message()), log_format);
  }
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  if (ampd::agent::IsHealthCommand(argc, argv)) {
    return ampd::agent::RunHealthCommand(argc, argv);
  }
  ampd::ResolveNamesAsTheSystemDoes();
  ampd::SignalThread signals({SIGTERM, SIGINT, SIGHUP});
  umask(0077);  // Only this user may read files that this program or its children create.
  const absl::StatusOr<ampd::agent::ParsedWorkerConfig> parsed = ampd::agent::ParseWorkerConfig(argc, argv);
  if (!parsed.ok()) {
    return Fail(kUsage, std::string(parsed.status().message()));
  }
  if (!parsed->output.empty()) {
    std::puts(parsed->output.c_str());
    return 0;
  }
  const WorkerConfig& config = parsed->config;
  ampd::StartLogging(ampd::LogFormatNamed(config.log_format), spdlog::level::from_str(config.log_level));
  ampd::LogLinesOfGrpcAndProtobuf();
  const absl::StatusOr<Inputs> inputs = ReadInputs(config);
  if (!inputs.ok()) {
    return Fail(kUsage, std::string(inputs.status().message()), config.log_format);
  }
  if (parsed->prints_config) {
    return PrintConfig(parsed->settings, config.log_format);
  }
  const auto reloader = std::make_shared<ampd::Reloader>(
      ampd::Reloader::Options{.config_file = parsed->config_file, .running = parsed->settings, .read = [argc, argv] {
                                return ReadAgain(argc, argv);
                              }});
  const std::optional<Failure> failure = RunWorker(config, *inputs, {.signals = &signals, .reloader = reloader});
  return failure.has_value() ? Fail(failure->code, std::string(failure->status.message()), config.log_format) : 0;
}
