#include "client/terminal/session.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/grpc/server_connection.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "client/render/shell_word.h"
#include "client/terminal/error_advice.h"
#include "client/terminal/server_address.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

std::string EnvironmentValue(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = EnvironmentValue(name);
    if (!value.empty()) {
      const std::string lower = absl::AsciiStrToLower(value);
      return absl::StrContains(lower, "utf-8") || absl::StrContains(lower, "utf8");
    }
  }
  return false;
}

int TerminalSize(bool rows, int otherwise) {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
  return known ? (rows ? size.ws_row : size.ws_col) : otherwise;
}

// Fields of requests, and the option or argument by which users set each of them.
constexpr std::pair<const char*, const char*> kTypedNames[] = {
    {"filter", "--filter"},
    {"page_token", "--page-token"},
    {"request_id", "--request-id"},
    {"name", "--name"},
    {"sha256", "NAME"},
    {"tenant", "--tenant"},
    {"priority", "--priority"},
    {"loss_scale_order.scale", "--set-scale"},
    {"loss_scale_order.growth_interval", "--growth-interval"},
};

// If the text of a server's error begins with the name of a request's field, replaces that name by the option or
// argument that the user typed. Returns any other text unchanged.
std::string WithTypedName(const std::string& text) {
  for (const auto& [field, typed] : kTypedNames) {
    const std::string_view name(field);
    if (text.starts_with(name) &&
        (text.size() == name.size() || text[name.size()] == ':' || text[name.size()] == ' ')) {
      return typed + text.substr(name.size());
    }
  }
  return text;
}

// Returns what is wrong with the TLS connection, according to gRPC's message; empty if TLS is not the problem.
std::string TlsFault(const ServerConnection& server, const std::string& message) {
  const auto says = [&message](const char* text) { return absl::StrContains(message, text); };
  if (says("certificate verify failed")) {
    return absl::StrCat("its certificate was not issued by a CA in ", server.tls.ca,
                        "; name the file of its CA with --ca or AMPD_CA");
  }
  if (says("Hostname Verification")) {
    return "its certificate is not for this host name; use a name or address that the certificate has";
  }
  if (says("wrong version number")) {
    return "it has no TLS; leave out --ca, and AMPD_CA or the ca of the context";
  }
  if (!says("Socket closed") && !says("Endpoint read failed") && !says("Connection reset by peer")) {
    return "";
  }
  if (server.tls.empty()) {
    return IsSocketAddress(server.address)
               ? ""
               : "it closed the connection; if it has TLS, name the file of its CA with --ca or AMPD_CA";
  }
  return server.tls.certificate.empty()
             ? "it closed the connection; if it asks for a certificate, give yours with --cert and --key"
             : absl::StrCat("it closed the connection; it may not trust the certificate in ", server.tls.certificate);
}

// Returns whether the server itself has failed, so that only its log explains the error.
bool IsFaultOfServer(const absl::Status& status) {
  return absl::IsInternal(status) || absl::IsUnknown(status) || absl::IsDataLoss(status);
}

// Returns why gRPC cannot reach the server. gRPC's message lists what it tried, and ends with the reason.
std::string WhyUnreachable(const std::string& message) {
  if (absl::StrContains(message, "SETTINGS frame")) {
    return "something listens there, but does not answer as an ampd-server does";
  }
  const size_t last = message.rfind(": ");
  return last == std::string::npos ? message : message.substr(last + 2);
}

}  // namespace

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return kExitAuth;
    case absl::StatusCode::kUnavailable:
      return kExitUnreachable;
    case absl::StatusCode::kDeadlineExceeded:
      return kExitTimeout;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitFailure;
  }
}

std::string OtherServer(const absl::Status& status, const std::string& address) {
  // Parts of gRPC's messages about an HTTP response that did not come from a gRPC server.
  constexpr const char* kMarks[] = {"Received http2 header with status: ", "http1.x server", "Failed parsing HTTP/2"};
  const std::string message(status.message());
  const auto* const mark = std::find_if(std::begin(kMarks), std::end(kMarks),
                                        [&message](const char* text) { return absl::StrContains(message, text); });
  if (mark == std::end(kMarks) || !ReasonOf(status).empty()) {
    return "";
  }
  const std::string code =
      mark == std::begin(kMarks) ? message.substr(message.find(*mark) + std::strlen(*mark), 3) : "";
  return absl::StrCat("there is no ampd-server at ", address, ": another server or a proxy answers there, in HTTP",
                      code.empty() ? "" : absl::StrCat(", with status ", Printable(code)));
}

std::string UnreachedText(const absl::Status& status, const ServerConnection& server) {
  if (std::string other = OtherServer(status, server.address); !other.empty()) {
    return other;
  }
  if (absl::IsDeadlineExceeded(status) && ReasonOf(status).empty()) {
    return absl::StrCat("the server at ", server.address, " does not answer");
  }
  if (!absl::IsUnavailable(status) || !ReasonOf(status).empty()) {
    return "";
  }
  const std::string message(status.message());
  const std::string fault = TlsFault(server, message);
  return absl::StrCat("cannot reach the server at ", server.address, ": ",
                      fault.empty() ? WhyUnreachable(message) : fault);
}

bool IsUnanswered(const absl::Status& status) {
  return ReasonOf(status).empty() &&
         (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status));
}

ExitCode ExitCodeOf(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED ? kExitOk : state == v1::Job::CANCELLED ? kExitCancelled : kExitFailure;
}

Session::Session(GlobalOptions options)
    : options_(std::move(options)), trace_(ContinueOrBegin(EnvironmentValue("TRACEPARENT"), SystemRandom())) {
  const bool terminal = isatty(STDOUT_FILENO) == 1 && EnvironmentValue("TERM") != "dumb";
  const bool automatic = terminal && EnvironmentValue("NO_COLOR").empty();
  palette_ = Palette(options_.color == "always" || (options_.color == "auto" && automatic));
  animated_ = terminal;
  ascii_ = options_.ascii || !LocaleIsUtf8();
}

std::string Session::Program(bool keeps_tenant) const {
  std::string program = "ampctl";
  const auto add = [&program](const char* option, const std::string& word) {
    absl::StrAppend(&program, " --", option, " ", word);
  };
  if (!options_.address.empty()) {
    add("address", ShellWord(Printable(options_.address)));
  }
  ConnectionFiles files = options_.files;
  for (const ConnectionFileName& file : ConnectionFileNames()) {
    if (const std::string& path = file.in(files); !path.empty()) {
      add(file.name, ShellPath(Printable(path)));
    }
  }
  if (keeps_tenant && !options_.tenant.empty()) {
    add("tenant", ShellWord(Printable(options_.tenant)));
  }
  return program;
}

std::string Session::Command(std::string_view words) const { return absl::StrCat(Program(), " ", std::string(words)); }

int Session::width() const { return TerminalSize(false, 80); }
int Session::height() const { return TerminalSize(true, 24); }

Cancellation* Session::CancelledByInterrupt() {
  if (cancellation_ == nullptr) {
    cancellation_ = std::make_unique<Cancellation>();
    signals_ = std::make_unique<SignalThread>(std::initializer_list<int>{SIGINT, SIGTERM, SIGTSTP});
    signals_->Start([this](int signal) {
      if (signal == SIGTSTP) {
        Suspend();
      } else {
        cancellation_->Cancel();
      }
    });
  }
  return cancellation_.get();
}

void Session::OnSuspend(std::function<void()> suspend) {
  absl::MutexLock lock(&suspend_mutex_);
  suspend_ = std::move(suspend);
}

void Session::Suspend() {
  absl::MutexLock lock(&suspend_mutex_);
  if (suspend_) {
    suspend_();
  } else {
    kill(getpid(), SIGSTOP);
  }
}

absl::StatusOr<JobClient*> Session::Client() {
  if (client_ == nullptr) {
    AMPD_ASSIGN_OR_RETURN(address_, ResolveAddress(options_.address));
    AMPD_RETURN_IF_ERROR(CheckIsNoOtherFile(
        address_.address, absl::StrCat("the address '", address_.address, "' from ", address_.origin)));
    AMPD_ASSIGN_OR_RETURN(const std::string tenant, Tenant());
    AMPD_ASSIGN_OR_RETURN(server_, ConnectionTo(address_.address, options_.files, address_.defaults));
    server_.traceparent = traceparent();
    NoteUnusedVariables();
    client_ = std::make_unique<JobClient>(JobClient::Options{.server = server_, .tenant = tenant});
  }
  return client_.get();
}

absl::StatusOr<std::string> Session::Tenant() const {
  const std::string& tenant = options_.tenant.empty() ? address_.tenant : options_.tenant;
  if (!tenant.empty()) {
    AMPD_RETURN_IF_ERROR(CheckTenant(options_.tenant.empty() ? address_.tenant_origin : "--tenant", tenant));
  }
  return tenant;
}

void Session::NoteUnusedVariables() const {
  const std::string token = EnvironmentValue("AMPD_TOKEN");
  if (address_.defaults.reads_environment) {
    if (options_.files.token.empty() && !token.empty() && token != server_.token) {
      Note(absl::StrCat("note: AMPD_TOKEN is not used: the token comes from the file ",
                        Printable(address_.defaults.files.token), " of ", Printable(address_.origin)));
    }
    return;
  }
  std::vector<std::string> unused;
  for (const auto& [variable, option] :
       {std::pair("AMPD_TOKEN", &options_.files.token), std::pair("AMPD_CA", &options_.files.tls.ca),
        std::pair("AMPD_CERT", &options_.files.tls.certificate), std::pair("AMPD_KEY", &options_.files.tls.key),
        std::pair("AMPD_TENANT", &options_.tenant)}) {
    if (option->empty() && !EnvironmentValue(variable).empty()) {
      unused.emplace_back(variable);
    }
  }
  if (!unused.empty()) {
    Note(absl::StrCat("note: not used here: ", absl::StrJoin(unused, ", "), "; the server's address comes from ",
                      address_.origin, ", and they may be for another server. To use them: --address ",
                      Printable(address_.address)));
  }
}

int Session::Fail(const absl::Status& status) const {
  const std::string plain(status.message());
  std::string message = ViolationsOf(status).empty() ? plain : WithTypedName(plain);
  std::string fault;
  const std::string other = address_.address.empty() ? "" : OtherServer(status, address_.address);
  if (!other.empty()) {
    message = other;
  } else if (absl::IsUnavailable(status) && ReasonOf(status).empty() && !address_.address.empty()) {
    fault = TlsFault(server_, message);
    message = absl::StrCat("cannot reach the server at ", address_.address, ": ",
                           fault.empty() ? WhyUnreachable(message) : fault);
  }
  std::string text = absl::StrCat("error: ", Printable(message));
  if (const std::string reason = ReasonOf(status); !reason.empty() && reason != "INVALID_FIELDS") {
    absl::StrAppend(&text, "  [", reason, "]");
  }
  absl::StrAppend(&text, "\n");
  for (const FieldViolation& violation : ViolationsOf(status)) {
    if (absl::StrContains(message, violation.description)) {
      continue;  // the message already contains this violation
    }
    absl::StrAppend(&text, "  ", Printable(WithTypedName(violation.field)), violation.field.empty() ? "" : ": ",
                    Printable(violation.description), "\n");
  }
  if (const ErrorMetadata metadata = MetadataOf(status); metadata.contains(kCandidates)) {
    for (const absl::string_view line : absl::StrSplit(metadata.at(kCandidates), '\n', absl::SkipEmpty())) {
      absl::StrAppend(&text, "  ", Printable({line.data(), line.size()}), "\n");
    }
  }
  const std::string advice = !fault.empty()  ? ""
                             : other.empty() ? AdviceOnError(status, address_, *this)
                                             : absl::StrCat(
                                                   "use the server's gRPC address, or unix:/PATH of its socket: "
                                                   "--address HOST:PORT; the address comes from ",
                                                   address_.origin);
  if (!advice.empty()) {
    absl::StrAppend(&text, "  try: ", advice, "\n");
  }
  if (client_ != nullptr && IsFaultOfServer(status)) {
    absl::StrAppend(&text, "  the server's log may say more: look for trace_id=", TraceIdOf(trace_), "\n");
  }
  WriteMessage(text);
  return ExitCodeOf(status);
}

void Session::Note(const std::string& text) const {
  if (!options_.quiet) {
    Warn(text);
  }
}

void Session::Warn(const std::string& text) const { WriteMessage(text + "\n"); }

}  // namespace ampd::client
