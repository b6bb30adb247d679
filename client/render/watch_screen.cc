#include "client/render/watch_screen.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ampd::client {
namespace {

constexpr int kFixedRows = 7;   // everything but curves and events
constexpr int kCurveExtra = 2;  // heading and step axis
constexpr int kMinCurveRows = 3;

std::string Head(const WatchedJob& watched, const ScreenOptions& options) {
  const v1::Job& job = watched.job();
  std::string line = options.palette.Bold(Printable(job.spec().name())) + "  " + job.id() + "  " +
                     StateText(job.state(), options.palette);
  if (job.attempts_size() > 0) {
    const v1::Attempt& attempt = *job.attempts().rbegin();
    absl::StrAppend(&line, "  attempt ", attempt.number(), " on ", Printable(attempt.worker()), "  ",
                    Printable(attempt.precision()), attempt.emulated() ? " (emulated)" : "");
  }
  return line + "\n";
}

std::string ProgressRow(const WatchedJob& watched, const ScreenOptions& options) {
  const int64_t total = watched.job().progress().total_steps();
  const double fraction = total > 0 ? static_cast<double>(watched.step()) / static_cast<double>(total) : -1;
  const std::string tail =
      absl::StrCat("  step ", FormatCount(watched.step()), total > 0 ? absl::StrCat("/", FormatCount(total)) : "",
                   "  ETA ", watched.finished() ? "done" : FormatSpan(watched.TimeLeft()));
  const int width = std::clamp(options.width - DisplayWidth(tail), 12, 60);
  return ProgressBar(fraction, width, options.ascii) + tail + "\n";
}

std::string NumbersRow(const WatchedJob& watched) {
  return absl::StrCat("loss ", FormatNumber(watched.loss()), "   grad norm ", FormatNumber(watched.grad_norm()),
                      "   lr ", FormatNumber(watched.learning_rate()), "   ",
                      FormatNumber(watched.samples_per_second()), " samples/s\n");
}

std::string MemoryRow(const WatchedJob& watched) {
  std::string row = absl::StrCat("memory ", FormatBytes(watched.memory_bytes()), "   peak ",
                                 FormatBytes(watched.memory_peak_bytes()));
  if (watched.eval().step() > 0) {
    absl::StrAppend(&row, "   eval loss ", FormatNumber(watched.eval().loss()), "   accuracy ",
                    FormatNumber(watched.eval().accuracy()), " at step ", watched.eval().step());
  }
  if (watched.dropped_points() > 0) {
    absl::StrAppend(&row, "   ", watched.dropped_points(), " points not shown");
  }
  return row + "\n";
}

std::string Curves(const WatchedJob& watched, const ScreenOptions& options, int rows) {
  const int loss_rows = std::max(kMinCurveRows, (rows - 2 * kCurveExtra) * 3 / 5);
  const int scale_rows = std::max(kMinCurveRows, rows - 2 * kCurveExtra - loss_rows);
  PlotOptions plot{options.width, loss_rows, options.ascii, false};
  std::string text = options.palette.Bold("loss") + "\n" + PlotCurve(watched.losses(), plot);
  plot.height = scale_rows;
  plot.log2 = true;
  return text + options.palette.Bold("loss scale") + " " + FormatNumber(watched.loss_scale()) + ", skipped steps (x) " +
         absl::StrCat(watched.skipped()) + "\n" + PlotCurve(watched.scales(), plot);
}

}  // namespace

std::string StateText(v1::Job::State state, const Palette& palette) {
  const std::string name = v1::Job::State_Name(state);
  switch (state) {
    case v1::Job::SUCCEEDED:
    case v1::Job::RUNNING:
      return palette.Green(name);
    case v1::Job::FAILED:
      return palette.Red(name);
    case v1::Job::CANCELLED:
    case v1::Job::CANCELLING:
    case v1::Job::PAUSED:
    case v1::Job::PAUSING:
      return palette.Yellow(name);
    default:
      return name;
  }
}

std::string RenderEvent(const v1::Event& event) {
  std::string text = v1::Event::Kind_Name(event.kind());
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return c == '_' ? ' ' : static_cast<char>(std::tolower(c)); });
  if (event.to_state() != v1::Job::STATE_UNSPECIFIED) {
    absl::StrAppend(&text, " to ", v1::Job::State_Name(event.to_state()));
  }
  if (event.step() > 0) {
    absl::StrAppend(&text, " at step ", event.step());
  }
  return event.message().empty() ? text : absl::StrCat(text, ": ", Printable(event.message()));
}

std::string RenderWatchLine(const WatchedJob& watched) {
  const int64_t total = watched.job().progress().total_steps();
  return absl::StrCat(v1::Job::State_Name(watched.job().state()), " step ", watched.step(),
                      total > 0 ? absl::StrCat("/", total) : "", " loss ", FormatNumber(watched.loss()), " scale ",
                      FormatNumber(watched.loss_scale()), " skipped ", watched.skipped(), " samples/s ",
                      FormatNumber(watched.samples_per_second()), " memory ", FormatBytes(watched.memory_bytes()),
                      " ETA ", watched.finished() ? "done" : FormatSpan(watched.TimeLeft()));
}

std::string RenderWatchScreen(const WatchedJob& watched, const ScreenOptions& options) {
  std::string text = Head(watched, options) + ProgressRow(watched, options) + NumbersRow(watched) + MemoryRow(watched);
  const int rows = std::min(options.height - kFixedRows, 24);
  if (rows >= 2 * (kCurveExtra + kMinCurveRows)) {
    text += Curves(watched, options, rows);
  } else {
    std::vector<double> losses;
    for (const PlotPoint& point : watched.losses()) {
      losses.push_back(point.value);
    }
    text += "loss " + Sparkline(losses, std::max(8, options.width - 16), options.ascii) + " " +
            FormatNumber(watched.loss()) + "\n";
  }
  const int used = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  const int room = std::clamp(options.height - 1 - used, 0, 3);
  const auto& events = watched.events();
  for (size_t i = events.size() - std::min<size_t>(events.size(), room); i < events.size(); ++i) {
    text += options.palette.Dim(FitTo(RenderEvent(events[i]), options.width)) + "\n";
  }
  return text;
}

}  // namespace ampd::client
