#include "client/commands/job_source.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/io/file.h"
#include "client/render/format.h"
#include "client/render/shell_word.h"
#include "client/render/wrap.h"
#include "client/terminal/exit_codes.h"
#include "client/terminal/standard_streams.h"
#include "precision/example_device.h"

namespace ampd::client {
namespace {

// Returns why standard input can't be read; empty if it can. If the process started without standard input, a library
// may have reused its descriptor for a file without a type, such as an eventfd.
std::string WhyNoStandardInput() {
  struct stat found = {};
  if (fstat(STDIN_FILENO, &found) != 0 || (found.st_mode & S_IFMT) == 0) {
    return "it is closed";
  }
  return S_ISDIR(found.st_mode) ? "it is a folder" : "";
}

// Reads standard input, at most one byte more than a job file may have.
absl::StatusOr<std::string> ReadStandardInput() {
  std::string why = WhyNoStandardInput();
  std::string text;
  std::string buffer(size_t{1} << 16, '\0');
  while (why.empty() && text.size() <= kMaxYamlBytes) {
    const ssize_t count = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count == 0) {
      break;
    }
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    if (count < 0 && errno != EINTR && (errno != EAGAIN || poll(&input, 1, /*timeout=*/-1) < 0)) {
      why = std::strerror(errno);
    }
    text.append(buffer, 0, static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }
  if (!why.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read standard input: ", why));
  }
  text.resize(std::min(text.size(), static_cast<size_t>(kMaxYamlBytes) + 1));
  return text;
}

}  // namespace

absl::StatusOr<std::string> ReadSource(const std::string& path, const std::string& if_missing) {
  constexpr int64_t kMostRead = int64_t{64} << 20;
  if (absl::StrContains(path, "://")) {
    return absl::InvalidArgumentError(absl::StrCat("ampctl reads no URLs; to submit the file at this URL: curl -s ",
                                                   ShellWord(path), " | ampctl job submit -f -"));
  }
  if (path != "-") {
    auto text = ReadFile(path, kMostRead);
    if (!text.ok()) {
      // The message begins with the name of a system call. Omit the name.
      const std::vector<std::string> parts = absl::StrSplit(text.status().message(), absl::MaxSplits(": ", 1));
      return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", parts.back(),
                                                     absl::IsNotFound(text.status()) ? "; " + if_missing : ""));
    }
    return text;
  }
  return ReadStandardInput();
}

std::string CommandWithFile(const std::string& before, const std::string& path, const std::string& after) {
  const bool is_gone = path == "-" || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
  return is_gone ? "" : absl::StrCat(before, " -f ", ShellPath(path), after.empty() ? "" : " ", after);
}

int FailWithProblems(const std::vector<Problem>& problems, const ProblemAdvice& advice) {
  WriteMessage(ProblemsText(problems, advice));
  return kExitUsage;
}

void PrintLines(const std::string& text, const std::string& prefix) {
  const int width = std::max(0, OutputWidth() - DisplayWidth(prefix));
  const std::string lines = WrapLines(PrintableLines(text), width);
  for (const auto line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    WriteText(absl::StrCat(prefix, std::string(line), "\n"));
  }
}

v1::ResolvePolicyRequest PolicyRequestOf(const v1::JobSpec& spec, const std::string& device) {
  v1::ResolvePolicyRequest request;
  *request.mutable_precision() = spec.precision();
  *request.mutable_model() = spec.model();
  *request.mutable_optimizer() = spec.optimizer();
  *request.mutable_device() = device == "cpu" ? precision::ExampleCpu() : precision::ExampleGpu();
  request.mutable_device()->set_id(device);
  const v1::DataSource& data = spec.has_predict() ? spec.data().predict() : spec.data().train();
  request.set_sequence_length(data.has_jsonl() ? data.jsonl().sequence_length() : data.tokens().sequence_length());
  return request;
}

std::vector<WorkerDevice> DevicesFor(JobClient* client, const v1::JobSpec& spec) {
  constexpr size_t kMost = 3;
  const auto has_kind = [kind = spec.resources().kind()](const v1::Device& device) {
    return kind == v1::ResourceSpec::CPU   ? device.kind() == v1::Device::CPU
           : kind == v1::ResourceSpec::GPU ? device.kind() == v1::Device::GPU
                                           : true;
  };
  const auto is_like = [](const v1::Device& a, const v1::Device& b) {
    return a.kind() == b.kind() && a.capability_major() == b.capability_major() &&
           a.capability_minor() == b.capability_minor() &&
           std::equal(a.instruction_sets().begin(), a.instruction_sets().end(), b.instruction_sets().begin(),
                      b.instruction_sets().end());
  };
  std::vector<WorkerDevice> devices;
  const auto workers = client->ListWorkers();
  for (const v1::Worker& worker : workers.ok() ? *workers : std::vector<v1::Worker>()) {
    const std::string& wanted = spec.resources().worker();
    if (worker.state() == v1::Worker::LOST || (!wanted.empty() && worker.name() != wanted)) {
      continue;
    }
    for (const v1::Device& device : worker.devices()) {
      const bool is_known = std::any_of(devices.begin(), devices.end(),
                                        [&](const WorkerDevice& known) { return is_like(known.device, device); });
      if (has_kind(device) && !is_known && devices.size() < kMost) {
        devices.push_back({absl::StrCat(Printable(worker.name()), "/", Printable(device.id()),
                                        device.name().empty() ? "" : absl::StrCat(" (", Printable(device.name()), ")")),
                           device});
      }
    }
  }
  return devices;
}

}  // namespace ampd::client
