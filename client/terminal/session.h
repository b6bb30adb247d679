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

// What every command takes.
struct GlobalOptions {
  std::string address;
  OutputFormat output = OutputFormat::kTable;
  bool no_headers = false;
  bool quiet = false;
  std::string color = "auto";  // auto, always, never
  bool ascii = false;
};

// The reason of a wait that came to its own end, at a server that answers.
inline constexpr char kWaitTimedOut[] = "WAIT_TIMED_OUT";

// One run of ampctl: its options, its terminal, its client. Data goes to stdout, messages to stderr. Single-threaded.
class Session {
 public:
  explicit Session(GlobalOptions options);

  const GlobalOptions& options() const { return options_; }
  Palette palette() const { return palette_; }  // of stdout
  bool animated() const { return animated_; }   // stdout is a terminal that can be redrawn
  bool ascii() const { return ascii_; }
  int width() const;
  int height() const;

  // Ctrl-C and SIGTERM as a cancellation from here on. REQUIRES: called before Client(), whose threads must not take
  // the signals; later calls return the same. Ctrl-Z calls `suspend`, which is to stop the process.
  Cancellation* CancelledByInterrupt();
  void OnSuspend(std::function<void()> suspend);

  // The client of the resolved address. Threads start with the first call, so signals are blocked before.
  absl::StatusOr<JobClient*> Client();

  // Prints the error with what to do about it; returns its exit code.
  int Fail(const absl::Status& status) const;
  void Note(const std::string& text) const;  // to stderr, unless quiet
  void Warn(const std::string& text) const;  // to stderr, whatever is asked for

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
