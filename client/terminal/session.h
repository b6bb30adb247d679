#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/ipc/signals.h"
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
  OutputFormat output = OutputFormat::kTable;
  bool no_headers = false;
  bool quiet = false;
  std::string color = "auto";  // auto, always, never
  bool ascii = false;
};

// The error reason of a wait that timed out although the server answered.
inline constexpr char kWaitTimedOut[] = "WAIT_TIMED_OUT";

// One run of ampctl: its options, its terminal and its client. Data goes to stdout, messages to stderr.
// Single-threaded.
class Session {
 public:
  explicit Session(GlobalOptions options);

  const GlobalOptions& options() const { return options_; }
  // Whether -q or -o name asks for names only.
  bool names_only() const { return options_.quiet || options_.output == OutputFormat::kName; }
  bool wide() const { return options_.output == OutputFormat::kWide; }
  Palette palette() const { return palette_; }  // the colours of stdout
  bool animated() const { return animated_; }   // whether stdout is a terminal that can be redrawn
  bool ascii() const { return ascii_; }
  int width() const;
  int height() const;

  // Makes Ctrl-C and SIGTERM trigger a cancellation, which it returns; later calls return the same one. From then on
  // Ctrl-Z runs the function set by OnSuspend, which must stop the process. REQUIRES: called before Client(), whose
  // threads must not receive these signals.
  Cancellation* CancelledByInterrupt();
  void OnSuspend(std::function<void()> suspend);

  // Returns the client for the resolved address. The first call starts threads, so CancelledByInterrupt() must be
  // called before it.
  absl::StatusOr<JobClient*> Client();

  // Prints the error and advice on what to do. Returns the exit code for the error.
  int Fail(const absl::Status& status) const;
  void Note(const std::string& text) const;  // prints to stderr, unless --quiet
  void Warn(const std::string& text) const;  // prints to stderr, even with --quiet

 private:
  void Suspend();

  const GlobalOptions options_;
  Palette palette_{false};
  bool animated_ = false;
  bool ascii_ = false;
  ResolvedAddress address_;
  std::unique_ptr<Cancellation> cancellation_;
  absl::Mutex suspend_mutex_;
  std::function<void()> suspend_ ABSL_GUARDED_BY(suspend_mutex_);
  std::unique_ptr<SignalThread> signals_;
  std::unique_ptr<JobClient> client_;
};

}  // namespace ampd::client
