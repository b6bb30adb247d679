// ampd-worker: the agent of one host.
//
// Exit codes: 0 ended by SIGTERM or SIGINT; 2 wrong usage; 3 the state folder or the checkpoint root can't be used, or
// another agent holds the state folder; 4 can't listen at an address.
#include <grp.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/grpc/grpc_log.h"
#include "base/grpc/server_connection.h"
#include "base/io/listen_address.h"
#include "base/ipc/signals.h"
#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "base/version.h"
#include "base/worker_name.h"
#include "worker/agent/agent.h"
#include "worker/agent/artifacts/artifact_cache.h"
#include "worker/agent/artifacts/artifact_client.h"
#include "worker/agent/files/file_sender.h"
#include "worker/agent/files/file_uplink_client.h"
#include "worker/agent/link/attach_client.h"
#include "worker/agent/metrics.h"
#include "worker/agent/ready_file.h"
#include "worker/agent/state_folder.h"
#include "worker/device/devices.h"
#include "worker/device/gpu_monitor.h"

namespace {

namespace fs = std::filesystem;

constexpr int kUsage = 2;
constexpr int kStateFolder = 3;
constexpr int kAddress = 4;

struct Flags {
  std::string server;
  ampd::ConnectionFiles files;
  std::string name;
  std::string state_folder;
  std::string checkpoint_root;
  bool checkpoint_root_shared = false;
  std::vector<std::string> data_roots;
  std::string data_group;
  std::string shim;
  std::string trainer;
  std::string metrics_listen;
  std::string ready_file;  // empty: write none
  std::vector<std::string> devices;
  int num_threads = 0;
  bool no_gpu_metrics = false;
  bool no_warm = false;
  bool stop_trainers_on_exit = false;
  double exit_grace_seconds = 20;
  int64_t artifact_cache_bytes = int64_t{20} << 30;
  std::string log_format = "text";
  std::string log_level = "info";
};

void Log(const std::string& line) { ampd::Log(spdlog::level::info, line); }
void Warn(const std::string& line) { ampd::Log(spdlog::level::warn, line); }

// Reports why the program can't start, in one line on stderr; as JSON if the log is JSON.
int Fail(int code, const std::string& line, const std::string& log_format = "text") {
  if (log_format == "json") {
    ampd::Log(spdlog::level::critical, line);
  } else {
    std::fprintf(stderr, "ampd-worker: %s\n", line.c_str());
  }
  return code;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "worker";
}

// The path of a program that is installed in the same folder as this one.
std::string ProgramBeside(const std::string& program) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? program : (self.parent_path() / program).string();
}

void DeclareFlags(CLI::App& app, Flags& flags) {
  app.add_option("--server", flags.server, "Server to work for: HOST:PORT, or unix:PATH of its socket")->required();
  app.add_option("--token-file", flags.files.token, "File with the token to send to the server (default: AMPD_TOKEN)");
  app.add_option("--ca", flags.files.tls.ca,
                 "File with the CA certificates for the server; the connection then has TLS (default: AMPD_CA)");
  app.add_option("--cert", flags.files.tls.certificate,
                 "File with the worker's certificate, for a server that asks for one (default: AMPD_CERT)");
  app.add_option("--key", flags.files.tls.key, "File with the key of the worker's certificate (default: AMPD_KEY)");
  app.add_option("--name", flags.name, "Name of the worker (default: the host name)");
  app.add_option("--state-dir", flags.state_folder, "Folder for the state of this worker")->required();
  app.add_option("--checkpoint-root", flags.checkpoint_root,
                 "Folder for checkpoints (default: the folder checkpoints in --state-dir)");
  app.add_flag("--checkpoint-root-shared", flags.checkpoint_root_shared,
               "Declare that all workers of the server share this checkpoint root, so that jobs can move between them");
  app.add_option("--data-root", flags.data_roots,
                 "NAME=PATH: let jobs read data from the folder PATH, under the name NAME; repeatable");
  app.add_option(
      "--data-group", flags.data_group,
      "Let jobs also read files that only this Unix group (its name or number) may read (default: only files that all "
      "users may read)");
  app.add_option("--shim", flags.shim, "Path of ampd-shim (default: in the folder of ampd-worker)");
  app.add_option("--trainer", flags.trainer, "Path of ampd-trainer (default: in the folder of ampd-worker)");
  app.add_option("--device", flags.devices,
                 "Offer only this device (cpu, gpu0, ...); repeatable (default: all devices of the host)");
  app.add_option("--threads", flags.num_threads, "Number of threads of the CPU device (default 0 = one per core)")
      ->check(CLI::Range(0, 4096));
  app.add_option("--metrics-listen", flags.metrics_listen,
                 "Loopback host:port of /metrics, /healthz and /readyz (default: not served)");
  app.add_flag("--no-gpu-metrics", flags.no_gpu_metrics,
               "Leave the state of GPUs out of /metrics, for example where NVIDIA's dcgm-exporter runs");
  app.add_option(
      "--ready-file", flags.ready_file,
      "File that ampd-worker writes once the server has accepted it, for scripts that wait for that. Its first line is "
      "the address of /metrics, and each further line is a device");
  app.add_option_function<std::string>(
         "--artifact-cache-bytes",
         [bytes = &flags.artifact_cache_bytes](const std::string& text) {
           const std::optional<int64_t> parsed = ampd::ParseByteCount(text);
           if (!parsed.has_value()) {
             throw CLI::ValidationError("--artifact-cache-bytes", ampd::NotAByteCount(text));
           }
           *bytes = *parsed;
         },
         "Maximum size of downloaded artifacts in --state-dir; artifacts in use are never deleted")
      ->type_name("SIZE")
      ->default_str(ampd::ByteCountText(flags.artifact_cache_bytes));
  app.add_flag("--no-warm", flags.no_warm,
               "Do not keep an idle trainer ready. This saves memory; each job then starts later");
  app.add_flag("--stop-trainers-on-exit", flags.stop_trainers_on_exit,
               "On exit, let trainers save a checkpoint and end; kill those that still run after --exit-grace");
  app.add_option("--log-format", flags.log_format, "Format of the log on stderr: text, or json (one object per line)")
      ->check(CLI::IsMember({"text", "json"}))
      ->option_text("FORMAT=" + flags.log_format);
  app.add_option("--log-level", flags.log_level, "Lowest level that is logged: debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->option_text("LEVEL=" + flags.log_level);
  app.set_version_flag("--version", ampd::VersionLine("ampd-worker"));
  app.add_option("--exit-grace", flags.exit_grace_seconds,
                 "With --stop-trainers-on-exit: seconds that trainers get to save a checkpoint before they are killed")
      ->capture_default_str();
}

void FillDefaults(Flags& flags) {
  std::error_code error;
  flags.state_folder = fs::absolute(flags.state_folder, error).string();
  flags.name = flags.name.empty() ? HostName() : flags.name;
  flags.ready_file = flags.ready_file.empty() ? "" : fs::absolute(flags.ready_file, error).string();
  flags.shim = flags.shim.empty() ? ProgramBeside("ampd-shim") : fs::absolute(flags.shim, error).string();
  flags.trainer = flags.trainer.empty() ? ProgramBeside("ampd-trainer") : fs::absolute(flags.trainer, error).string();
  flags.checkpoint_root = flags.checkpoint_root.empty() ? flags.state_folder + "/checkpoints"
                                                        : fs::absolute(flags.checkpoint_root, error).string();
}

// Names the host and the state folder, cut to the maximum length in a report. If two agents use the same worker name,
// the message that refuses the second one shows this text.
std::string Place(const std::string& state_folder) {
  constexpr size_t kMaxBytes = 512;
  std::error_code error;
  const fs::path real = fs::weakly_canonical(state_folder, error);  // resolved, so that a folder has one name
  return absl::StrCat(HostName(), ":", error ? state_folder : real.string()).substr(0, kMaxBytes);
}

// Parses "name=path" pairs. If one is wrong, sets `why` to a message that names it.
std::map<std::string, std::string> ParseDataRoots(const std::vector<std::string>& pairs, std::string* why) {
  std::map<std::string, std::string> roots;
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    std::error_code error;
    if (equals == 0 || equals == std::string::npos || !fs::is_directory(pair.substr(equals + 1), error)) {
      *why = absl::StrCat("--data-root ", pair, ": must be name=path of an existing folder");
      return {};
    }
    roots[pair.substr(0, equals)] = fs::absolute(pair.substr(equals + 1), error).string();
  }
  return roots;
}

// The id of a group of this host, given by name or number.
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

int CheckProgram(const std::string& path, const char* flag, const Flags& flags) {
  return access(path.c_str(), X_OK) == 0 ? 0
                                         : Fail(kUsage, absl::StrCat(flag, ": can't execute ", path), flags.log_format);
}

absl::StatusOr<ampd::device::Devices> FindDevices(const Flags& flags) {
  ampd::device::Devices::Options options;
  options.num_threads = flags.num_threads;
  options.only = flags.devices;
  return ampd::device::Devices::Discover(options);
}

// Converts the flags to the agent's options. Run sets the remaining options.
ampd::agent::Agent::Options OptionsOf(const Flags& flags, const std::string& agent_id) {
  ampd::agent::Agent::Options options;
  options.name = flags.name;
  options.version = ampd::Version();
  options.identity.set_id(agent_id);
  options.identity.set_place(Place(flags.state_folder));
  options.state_folder = flags.state_folder;
  options.ready_file = flags.ready_file;
  options.checkpoint_root = flags.checkpoint_root;
  options.checkpoint_root_shared = flags.checkpoint_root_shared;
  options.command = {flags.shim, {flags.trainer}};
  options.warm = !flags.no_warm;
  options.stop_trainers_on_exit = flags.stop_trainers_on_exit;
  options.exit_grace = absl::Seconds(flags.exit_grace_seconds);
  options.log = Log;
  options.clock = &ampd::SystemClock();
  options.random = &ampd::SystemRandom();
  return options;
}

// Runs the agent until a signal ends it.
int RunAgent(const Flags& flags, const ampd::ServerConnection& server, ampd::agent::Agent::Options options,
             ampd::SignalThread& signals) {
  ampd::agent::AttachClient link({server, Warn});
  options.link = &link;
  ampd::agent::ArtifactClient source(server);
  ampd::agent::ArtifactCache::Options cache;
  cache.folder = flags.state_folder + "/artifacts";
  cache.max_bytes = flags.artifact_cache_bytes;
  cache.source = &source;
  cache.clock = &ampd::SystemClock();
  cache.log = Log;
  ampd::agent::ArtifactCache artifacts(std::move(cache));
  options.artifacts = &artifacts;
  ampd::agent::FileUplinkClient uplink(server);
  ampd::agent::FileSender files({.root = flags.checkpoint_root, .uplink = &uplink, .log = Log});
  options.files = &files;
  // Shared with the signal thread, which may call Stop after Run has returned.
  const auto agent = std::make_shared<ampd::agent::Agent>(options);
  agent->Start();
  signals.Start([agent](int signal) {
    if (signal == SIGHUP) {
      Log("SIGHUP is ignored: there is no configuration to reload");
    } else {
      agent->Stop();
    }
  });
  link.Start();
  artifacts.Start();
  Log(absl::StrCat("worker ", flags.name, " started for server ", flags.server,
                   options.metrics_address.empty() ? "" : absl::StrCat(", metrics at ", options.metrics_address)));
  agent->Run();
  return 0;
}

int Run(const Flags& flags, ampd::SignalThread& signals) {
  if (const absl::Status name = ampd::CheckWorkerName(flags.name); !name.ok()) {
    return Fail(kUsage, absl::StrCat("--name (default: the host name) ", std::string(name.message())),
                flags.log_format);
  }
  const absl::StatusOr<ampd::ServerConnection> server = ampd::ConnectionTo(flags.server, flags.files);
  if (!server.ok()) {
    return Fail(kUsage, std::string(server.status().message()), flags.log_format);
  }
  std::string why;
  const std::map<std::string, std::string> data_roots = ParseDataRoots(flags.data_roots, &why);
  if (!why.empty()) {
    return Fail(kUsage, why, flags.log_format);
  }
  absl::StatusOr<gid_t> data_group;
  if (!flags.data_group.empty()) {
    data_group = ParseGroup(flags.data_group);
    if (!data_group.ok()) {
      return Fail(kUsage, std::string(data_group.status().message()), flags.log_format);
    }
  }
  if (CheckProgram(flags.shim, "--shim", flags) != 0 || CheckProgram(flags.trainer, "--trainer", flags) != 0) {
    return kUsage;
  }
  absl::StatusOr<ampd::device::Devices> devices = FindDevices(flags);
  if (!devices.ok()) {
    return Fail(kUsage, std::string(devices.status().message()), flags.log_format);
  }
  absl::StatusOr<ampd::ListenAddress> listen;
  if (!flags.metrics_listen.empty()) {
    listen = ampd::ParseLoopbackAddress("--metrics-listen", flags.metrics_listen,
                                        "a proxy on this host can offer the page to others");
    if (!listen.ok()) {
      return Fail(kUsage, std::string(listen.status().message()), flags.log_format);
    }
  }
  const auto state_folder = ampd::agent::StateFolder::Open(flags.state_folder, ampd::SystemRandom());
  if (!state_folder.ok()) {
    return Fail(kStateFolder, std::string(state_folder.status().message()), flags.log_format);
  }
  const absl::Status removed =
      flags.ready_file.empty() ? absl::OkStatus() : ampd::agent::RemoveReadyFile(flags.ready_file);
  if (!removed.ok()) {
    return Fail(kUsage, absl::StrCat("--ready-file ", flags.ready_file, ": ", removed.message()), flags.log_format);
  }
  if (const absl::Status usable = ampd::agent::CheckWritable(flags.checkpoint_root, "the checkpoint root");
      !usable.ok()) {
    return Fail(kStateFolder, std::string(usable.message()), flags.log_format);
  }
  ampd::agent::AgentCounters counters;
  ampd::agent::Agent::Options options = OptionsOf(flags, state_folder->agent_id());
  options.data_roots = data_roots;
  if (data_group.ok()) {
    options.data_group = *data_group;
  }
  options.devices = [&devices] { return devices->Current(); };
  options.counters = &counters;
  std::unique_ptr<ampd::device::GpuMonitor> gpus;
  std::unique_ptr<ampd::agent::MetricsEndpoint> metrics;
  if (listen.ok()) {
    gpus = flags.no_gpu_metrics ? nullptr : ampd::device::GpuMonitor::Open(flags.devices);
    auto listening = ampd::agent::MetricsEndpoint::Listen(
        *listen,
        {.version = ampd::Version(), .counters = &counters, .clock = &ampd::SystemClock(), .gpus = gpus.get()});
    if (!listening.ok()) {
      return Fail(kAddress, std::string(listening.status().message()), flags.log_format);
    }
    metrics = *std::move(listening);
    listen->port = metrics->port();
    options.metrics_address = listen->ToString();
  }
  return RunAgent(flags, *server, std::move(options), signals);
}

}  // namespace

int main(int argc, char** argv) {
  ampd::SignalThread signals({SIGTERM, SIGINT, SIGHUP});
  std::signal(SIGPIPE, SIG_IGN);
  Flags flags;
  CLI::App app("The worker agent of ampd: runs what the server assigns to this host.", "ampd-worker");
  DeclareFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    const std::string text = error.what();
    return Fail(kUsage, absl::StrCat(text.substr(0, text.find('\n')), "; see ampd-worker --help"));
  }
  ampd::StartLogging(ampd::LogFormatNamed(flags.log_format), spdlog::level::from_str(flags.log_level));
  ampd::LogLinesOfGrpcAndProtobuf();
  FillDefaults(flags);
  return Run(flags, signals);
}
