#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/ipc/signals.h"
#include "base/trace_context.h"
#include "client/api/cancellation.h"
#include "client/api/job_client.h"
#include "client/render/format.h"
#include "client/terminal/contexts.h"
#include "client/terminal/exit_codes.h"
#include "client/terminal/formats.h"

namespace ampd::client {

// The options that every command has.
struct GlobalOptions {
  std::string address;
  ConnectionFiles files;
  std::string tenant;  // value of --tenant; empty: the tenant of the context or of AMPD_TENANT
  OutputFormat output = OutputFormat::kTable;
  bool no_headers = false;
  bool quiet = false;
  std::string color = "auto";  // auto, always, never
  bool ascii = false;
  bool has_names = true;  // whether the command supports -o name; if so, -q prints only names
};

// The error reason when a wait timed out although the server answered.
inline constexpr char kWaitTimedOut[] = "WAIT_TIMED_OUT";

// The key, in an error's metadata, of a text that lists what the user may have meant. Session::Fail prints it below the
// error.
inline constexpr char kCandidates[] = "candidates";

// If the error shows that another server, such as a proxy, answers at `address`, returns a sentence that says so;
// otherwise "".
std::string OtherServer(const absl::Status& status, const std::string& address);

// If the error shows that no ampd-server answers at the server's address, returns a sentence with the reason; otherwise
// "".
std::string UnreachedText(const absl::Status& status, const ServerConnection& server);

// Returns whether a call got no answer, because the server cannot be reached or did not answer in time, or because of
// Ctrl-C. All other calls of the command would then fail in the same way.
bool IsUnanswered(const absl::Status& status);

// One run of ampctl: its options, its terminal and its client. Data goes to stdout, messages to stderr. For tracing,
// the run is one span, and the parent of every call to the server. Its trace is that of the environment variable
// TRACEPARENT or, if the variable is not set or invalid, a new one. Single-threaded.
class Session {
 public:
  explicit Session(GlobalOptions options);

  const GlobalOptions& options() const { return options_; }
  // Whether to print names only. True with -o name. Also true with -q, except if the command has no names, or if -o
  // selects a format other than the default table.
  bool names_only() const {
    const bool is_default = options_.output == OutputFormat::kTable;
    return options_.output == OutputFormat::kName || (options_.quiet && is_default && options_.has_names);
  }
  bool wide() const { return options_.output == OutputFormat::kWide; }
  // Whether the output is for people: a table or another text. Other formats are for programs.
  bool for_people() const {
    return !names_only() && (options_.output == OutputFormat::kTable || options_.output == OutputFormat::kWide);
  }
  // Returns the beginning of a command line that a message suggests: "ampctl", and the options with which the user
  // chose the server, the credentials and the tenant, as words of a shell. Values of environment variables and of
  // contexts are not repeated, because they also hold for the suggested command. Without `keeps_tenant`, leaves out
  // --tenant.
  std::string Program(bool keeps_tenant = true) const;
  // Returns a command line that a message suggests: Program() and `words`, such as "job show ID". Every message that
  // suggests a command for the same server uses it.
  std::string Command(std::string_view words) const;
  Palette palette() const { return palette_; }  // the colours of stdout
  bool animated() const { return animated_; }   // whether stdout is a terminal on which text can be redrawn
  bool ascii() const { return ascii_; }
  int width() const;
  int height() const;

  // Returns a cancellation that Ctrl-C and SIGTERM trigger. Every call returns the same cancellation. From the first
  // call on, Ctrl-Z runs the function set by OnSuspend, which must stop the process. REQUIRES: called before Client(),
  // whose threads must not receive these signals.
  Cancellation* CancelledByInterrupt();
  void OnSuspend(std::function<void()> suspend);

  // Returns the span of this run. A command that makes its own client sets it as ServerConnection.traceparent.
  std::string traceparent() const { return FormatTraceparent(trace_); }
  // Returns the client for the resolved address. The first call starts threads, so CancelledByInterrupt() must be
  // called before it.
  absl::StatusOr<JobClient*> Client();

  // Returns the tenant of --tenant, or else that of the context or of AMPD_TENANT; empty: the server chooses.
  // INVALID_ARGUMENT if the text is not the name of a tenant. REQUIRES: Client() was called.
  absl::StatusOr<std::string> Tenant() const;

  // Prints the error and advice on what to do. Returns the exit code for the error.
  int Fail(const absl::Status& status) const;
  void Note(const std::string& text) const;  // prints to stderr, unless --quiet
  void Warn(const std::string& text) const;  // prints to stderr, even with --quiet

 private:
  void Suspend();
  // Prints a note on environment variables that are set, but not used for this server.
  void NoteUnusedVariables() const;

  const GlobalOptions options_;
  const TraceContext trace_;
  Palette palette_{false};
  bool animated_ = false;
  bool ascii_ = false;
  ResolvedAddress address_;
  ServerConnection server_;
  std::unique_ptr<Cancellation> cancellation_;
  absl::Mutex suspend_mutex_;
  std::function<void()> suspend_ ABSL_GUARDED_BY(suspend_mutex_);
  std::unique_ptr<SignalThread> signals_;
  std::unique_ptr<JobClient> client_;
};

}  // namespace ampd::client
