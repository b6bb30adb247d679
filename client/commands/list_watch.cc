#include "client/commands/list_watch.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "client/commands/checks.h"
#include "client/render/table.h"
#include "client/terminal/live_screen.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

constexpr absl::Duration kReconnectFor = absl::Minutes(1);
constexpr absl::Duration kInterval = absl::Seconds(2);
constexpr int kRowsBeside = 2;  // rows of the screen for the headings and the last line

// Returns whether the call failed because the server is unreachable or ended.
bool IsLost(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
}

// Shows the successive readings of one list. Single-threaded, except that on Ctrl-Z the thread that receives signals
// calls LiveScreen::Suspend, which restores the terminal.
class View {
 public:
  View(Session* session, const Cells& headings)
      : session_(session),
        headings_(headings),
        is_screen_(session->animated() && session->for_people()),
        printer_(session, headings) {
    session_->OnSuspend([this] { screen_.Suspend(); });
  }
  ~View() { session_->OnSuspend(nullptr); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  // Returns how many items to read; 0: all.
  int limit() const { return is_screen_ ? std::max(1, session_->height() - kRowsBeside) : 0; }

  void Show(ListReading reading) {
    last_ = std::move(reading);
    if (is_screen_) {
      Draw("Ctrl-C ends");
    } else {
      PrintChanges();
    }
  }

  void ShowLost(const absl::Status& status) {
    if (is_screen_) {
      Draw("connection lost; reconnecting");
    } else if (!std::exchange(is_lost_, true)) {
      session_->Note(absl::StrCat("connection lost; reconnecting: ", Printable(std::string(status.message()))));
    }
  }

  // Ends the live screen, and prints the last table to the terminal.
  void End() {
    screen_.Leave();
    if (is_screen_) {
      WriteColoured(Table(OutputWidth()));
    }
  }

 private:
  // Returns the table, with lines of at most `max_width` columns (0: of any width).
  std::string Table(int max_width = 0) const {
    std::vector<Cells> rows;
    for (const ListReading::Entry& entry : last_.entries) {
      rows.insert(rows.end(), entry.text.rows.begin(), entry.text.rows.end());
    }
    std::vector<int> widths;
    return RenderRows(session_->options().no_headers ? Cells() : headings_, rows, &widths, max_width);
  }

  void Draw(const std::string& notice) {
    const std::vector<std::string> lines = absl::StrSplit(Table(), '\n', absl::SkipEmpty());
    const size_t space = static_cast<size_t>(std::max(1, session_->height() - 1));
    std::string text;
    for (size_t i = 0; i < std::min(lines.size(), space); ++i) {
      absl::StrAppend(&text, ClipTo(lines[i], session_->width()), "\n");
    }
    const auto num_shown = static_cast<int64_t>(last_.entries.size());
    const std::string count = last_.num_all > num_shown ? absl::StrCat(num_shown, " of ", last_.num_all, "; ") : "";
    screen_.Draw(text + session_->palette().Dim(ClipTo(count + notice, session_->width())) + "\n");
  }

  void PrintChanges() {
    is_lost_ = false;
    std::map<std::string, std::string> states;
    std::vector<ItemText> changed;
    for (const ListReading::Entry& entry : last_.entries) {
      const auto before = states_.find(entry.id);
      if (before == states_.end() || before->second != entry.state) {
        changed.push_back(entry.text);
      }
      states[entry.id] = entry.state;
    }
    states_ = std::move(states);
    printer_.Add(changed);
    FlushOutput();
  }

  Session* const session_;
  const Cells headings_;
  const bool is_screen_;
  ListPrinter printer_;
  LiveScreen screen_;
  ListReading last_;
  std::map<std::string, std::string> states_;  // states of the last reading's items, by id
  bool is_lost_ = false;
};

}  // namespace

std::vector<Argument> ListWatchArguments(ListWatchOptions* options) {
  return {{.name = "--watch",
           .value = &options->watch,
           .help = "Show the list again and again until Ctrl-C. In a pipe or file, print only what changes"},
          {.name = "--interval",
           .value = &options->interval,
           .text = "DURATION",
           .help = "Refresh interval of --watch (default 2s, at least 50ms)",
           .check = CheckInterval}};
}

absl::Status CheckListWatch(const ListWatchOptions& options) {
  return options.interval.has_value() && !options.watch
             ? absl::InvalidArgumentError("--interval needs --watch: it sets how often the list is refreshed")
             : absl::OkStatus();
}

int WatchList(Session* session, std::optional<absl::Duration> interval, const Cells& headings, const ReadList& read) {
  const OutputFormat format = session->options().output;
  if (session->names_only() || format == OutputFormat::kJson || format == OutputFormat::kYaml) {
    return session->Fail(absl::InvalidArgumentError("--watch has the formats table, wide, jsonl and csv only"));
  }
  Cancellation* const interrupt = session->CancelledByInterrupt();
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  View view(session, headings);
  absl::Duration last_answer = SystemClock().SinceBoot();
  bool has_answered = false;
  do {
    absl::StatusOr<ListReading> reading = read(*client, view.limit());
    if (reading.ok()) {
      last_answer = SystemClock().SinceBoot();
      has_answered = true;
      view.Show(*std::move(reading));
    } else if (has_answered && IsLost(reading.status()) && SystemClock().SinceBoot() - last_answer < kReconnectFor) {
      view.ShowLost(reading.status());
    } else {
      view.End();
      return session->Fail(reading.status());
    }
    if (OutputHasFailed()) {
      return kExitOk;
    }
  } while (!interrupt->WaitFor(interval.value_or(kInterval)));
  view.End();
  return kExitInterrupted;
}

}  // namespace ampd::client
