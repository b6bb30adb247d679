#include "worker/agent/health.h"

#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/http/page.h"
#include "base/io/listen_address.h"
#include "base/status_macros.h"
#include "base/tls/tls_files.h"
#include "worker/agent/worker_config.h"

namespace ampd::agent {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(5);
constexpr int kReady = 0;
constexpr int kNotReady = 1;
constexpr int kUsage = 2;
constexpr int kHttpOk = 200;

// Requests /readyz from the worker, and returns the line that the worker answers if it is ready. INVALID_ARGUMENT for
// wrong usage; UNAVAILABLE with the reason if the worker is not ready.
absl::StatusOr<std::string> AskWorker(const WorkerConfig& config) {
  if (config.metrics_listen.empty()) {
    return absl::InvalidArgumentError("health needs the worker's --metrics-listen, where it serves /readyz");
  }
  AMPD_ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress("--metrics-listen", config.metrics_listen));
  // The worker serves /readyz over TLS if TLS is configured. At an address that other hosts can reach, it always uses
  // TLS.
  const bool has_tls =
      !config.metrics_tls.empty() || !ParseLoopbackAddress("--metrics-listen", config.metrics_listen, "").ok();
  if (has_tls && (config.tls.certificate.empty() || config.tls.key.empty())) {
    return absl::InvalidArgumentError(
        "health needs --cert and --key, a certificate of the worker's --metrics-tls-client-ca");
  }
  const absl::StatusOr<http::Page> page =
      http::GetPage(address, "/readyz", has_tls ? config.tls : TlsFiles{}, kTimeout);
  if (absl::IsUnavailable(page.status())) {
    return absl::UnavailableError(
        absl::StrCat("no answer from ", address.ToString(), ": ", std::string(page.status().message())));
  }
  AMPD_RETURN_IF_ERROR(page.status());
  std::string line(absl::StripSuffix(page->body, "\n"));
  return page->status == kHttpOk ? absl::StatusOr<std::string>(line)
                                 : absl::UnavailableError(absl::StrCat("not ready: ", line));
}

}  // namespace

bool IsHealthCommand(int argc, const char* const* argv) { return argc > 1 && argv[1] == std::string_view("health"); }

int RunHealthCommand(int argc, const char* const* argv) {
  const absl::StatusOr<ParsedWorkerConfig> parsed = ParseHealthConfig(argc - 1, argv + 1);
  if (parsed.ok() && !parsed->output.empty()) {
    std::puts(parsed->output.c_str());
    return kReady;
  }
  const absl::StatusOr<std::string> answer = parsed.ok() ? AskWorker(parsed->config) : parsed.status();
  if (!answer.ok()) {
    std::fprintf(stderr, "ampd-worker: %s\n", std::string(answer.status().message()).c_str());
    return absl::IsInvalidArgument(answer.status()) ? kUsage : kNotReady;
  }
  std::puts(answer->c_str());
  return kReady;
}

}  // namespace ampd::agent
