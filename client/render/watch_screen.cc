#include "client/render/watch_screen.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/render/enum_text.h"
#include "client/render/job_text.h"
#include "client/render/job_text_parts.h"

namespace ampd::client {
namespace {

constexpr int kCurveExtra = 2;  // rows for a curve's heading and step axis
constexpr int kMinCurveRows = 3;
constexpr int kMostCurveRows = 24;
constexpr int kMostEvents = 3;

// Arranges the words in as few rows as possible. Never splits a word. Leaves out empty words.
std::string Flow(const std::vector<std::string>& words, int width) {
  constexpr int kGap = 3;
  std::string text;
  int used = 0;
  for (const std::string& word : words) {
    if (word.empty()) {
      continue;
    }
    const int size = DisplayWidth(word);
    const bool fits = used > 0 && used + kGap + size <= width;
    if (used > 0) {
      text += fits ? std::string(kGap, ' ') : "\n";
    }
    text += word;
    used = fits ? used + kGap + size : size;
  }
  return text.empty() ? "" : text + "\n";
}

// Returns why the job waits, or the command that resumes a paused job. Otherwise returns the job's message, which may
// be empty.
std::string StateReason(const WatchedJob& watched, const std::string& program) {
  const v1::Job& job = watched.job();
  if (job.state() == v1::Job::QUEUED && !watched.waiting().empty()) {
    return Printable(watched.waiting());
  }
  if (job.state() == v1::Job::PAUSED) {
    return absl::StrCat("resume it with: ", program, " job resume ", Printable(job.id()));
  }
  return Printable(job.message());
}

// Joins words by two spaces. Words that are empty, except the first, add nothing.
std::string Words(const std::vector<std::string>& words) {
  std::string text = words.front();
  for (size_t i = 1; i < words.size(); ++i) {
    absl::StrAppend(&text, words[i].empty() ? "" : "  ", words[i]);
  }
  return text;
}

std::string StepText(const WatchedJob& watched) {
  const int64_t total = watched.total_steps();
  return absl::StrCat("step ", FormatCount(watched.progress().step()), total > 0 ? "/" + FormatCount(total) : "",
                      HasStoppedEarly(watched.job()) ? " (stopped early)" : "");
}

// Returns the times of a job: "24s, ETA 1m02s" while it runs, "took 2m05s" after its end, "" before its first step.
std::string TimeText(const WatchedJob& watched) {
  const absl::Duration elapsed = watched.Elapsed();
  if (elapsed < absl::ZeroDuration()) {
    return "";
  }
  if (watched.finished()) {
    return elapsed < absl::Seconds(1) ? absl::StrCat("took ", absl::ToInt64Milliseconds(elapsed), "ms")
                                      : "took " + FormatSpan(elapsed);
  }
  return absl::StrCat(FormatSpan(elapsed), ", ETA ", FormatSpan(watched.TimeLeft()));
}

// Returns a rate per second: a whole number with separators if it is 100 or more, otherwise a number with its fraction.
std::string FormatRate(double rate) {
  constexpr double kWholeFrom = 100;
  return rate >= kWholeFrom && rate < 1e15 ? FormatCount(std::llround(rate)) : FormatNumber(rate);
}

std::string Head(const WatchedJob& watched, const ScreenOptions& options) {
  const v1::Job& job = watched.job();
  std::vector<std::string> words = {options.palette.Bold(Printable(job.spec().name())), Printable(job.id()),
                                    StateText(job.state(), options.palette)};
  if (job.attempts_size() > 0) {
    const v1::Attempt& attempt = *job.attempts().rbegin();
    words.push_back(absl::StrCat("attempt ", attempt.number(), " on ", Printable(attempt.worker())));
    words.push_back(absl::StrCat(Printable(attempt.precision()), attempt.emulated() ? " (emulated)" : ""));
  }
  const std::string why = StateReason(watched, options.program);
  return Flow(words, options.width) + (why.empty() ? "" : options.palette.Yellow(why) + "\n");
}

// Returns a short head, for a screen with too few rows for the whole head.
std::string ShortHead(const WatchedJob& watched, const ScreenOptions& options) {
  const v1::Job& job = watched.job();
  return absl::StrCat(StateText(job.state(), options.palette), "  ", options.palette.Bold(Printable(job.spec().name())),
                      "\n");
}

std::string ProgressRow(const WatchedJob& watched, const ScreenOptions& options) {
  const int64_t total = watched.total_steps();
  const bool trained_all = watched.job().state() == v1::Job::SUCCEEDED && !HasStoppedEarly(watched.job());
  const double fraction = trained_all ? 1
                          : total > 0 ? static_cast<double>(watched.progress().step()) / static_cast<double>(total)
                                      : -1;
  const std::string tail = Words({"", StepText(watched), TimeText(watched)});
  constexpr int kLeastBar = 12;
  constexpr int kMostBar = 60;
  const int width = std::min(options.width - DisplayWidth(tail), kMostBar);
  return width < kLeastBar ? Flow({StepText(watched), TimeText(watched)}, options.width)
                           : ProgressBar(fraction, width, options.ascii) + tail + "\n";
}

// Returns the last loss: "loss 0.31", or for a step of several phases "loss 0.31, generator 2.4".
std::string LossText(const WatchedJob& watched) {
  std::string text = absl::StrCat("loss ", FormatNumber(watched.loss()));
  const auto& phases = watched.progress().phases();
  for (int i = 1; i < phases.size(); ++i) {
    absl::StrAppend(&text, ", ", Printable(phases[i].name()), " ", FormatNumber(phases[i].loss()));
  }
  return text;
}

// Returns the metrics of an evaluation except its loss: "accuracy 0.9, top-5 0.99, F1 0.89, ", or for a language model
// "perplexity 30, ".
std::string EvalQuality(const v1::EvalPoint& eval) {
  const auto part = [](const char* name, bool is_told, double number) {
    return is_told ? absl::StrCat(name, " ", FormatNumber(number), ", ") : "";
  };
  if (eval.has_perplexity()) {
    return part("perplexity", true, eval.perplexity());
  }
  return absl::StrCat(part("accuracy", eval.has_accuracy(), eval.accuracy()),
                      part("top-5", eval.has_top5_accuracy(), eval.top5_accuracy()),
                      part("F1", eval.has_f1(), eval.f1()));
}

// Returns the memory that the job's tensors take now and, if `has_peak`, the peak: "memory 64.0 MiB, peak 80.0 MiB". If
// the present amount is not known, as for a job that ended long ago, returns only the peak. Empty if neither is known.
std::string MemoryText(const v1::Progress& progress, bool has_peak) {
  const std::string peak = FormatBytes(progress.memory_peak_bytes());
  if (progress.memory_allocated_bytes() == 0) {
    return progress.memory_peak_bytes() > 0 ? "peak memory " + peak : "";
  }
  return absl::StrCat("memory ", FormatBytes(progress.memory_allocated_bytes()), has_peak ? ", peak " + peak : "");
}

// Returns the number of samples per second: "1,200 samples/s"; empty if it is not known.
std::string PaceText(const WatchedJob& watched) {
  const double rate = watched.samples_per_second();
  return rate > 0 ? FormatRate(rate) + " samples/s" : "";
}

std::string NumberRows(const WatchedJob& watched, int width) {
  if (watched.progress().step() == 0) {
    return "";
  }
  std::vector<std::string> words = {LossText(watched)};
  if (HasLastStep(watched.progress())) {
    words.push_back(absl::StrCat("grad norm ", FormatNumber(watched.progress().grad_norm())));
    words.push_back(absl::StrCat("learning rate ", FormatNumber(watched.progress().learning_rate())));
  }
  words.push_back(PaceText(watched));
  std::string text = Flow(words, width);
  words = {MemoryText(watched.progress(), /*has_peak=*/true)};
  if (watched.eval().step() > 0) {
    const v1::EvalPoint& eval = watched.eval();
    words.push_back(absl::StrCat("eval at step ", FormatCount(eval.step()), ": ", EvalQuality(eval), "loss ",
                                 FormatNumber(eval.loss())));
  }
  if (watched.dropped_points() > 0) {
    words.push_back(absl::StrCat(FormatCount(watched.dropped_points()), " points not shown"));
  }
  return text + Flow(words, width);
}

// Returns the heading above the loss scale's curve: "loss scale 32768 (2^15)   44 steps skipped (marked x)".
std::string ScaleHeading(const WatchedJob& watched, const ScreenOptions& options) {
  const double scale = watched.loss_scale();
  const double power = scale > 0 ? std::log2(scale) : 0;
  const bool exact = power != 0 && power == std::round(power);
  return Flow({absl::StrCat(options.palette.Bold("loss scale"), " ", FormatNumber(scale),
                            exact ? absl::StrCat(" (2^", static_cast<int>(power), ")") : ""),
               absl::StrCat(FormatCount(watched.progress().skipped_steps()),
                            watched.progress().skipped_steps() == 1 ? " step" : " steps", " skipped (marked x)")},
              options.width);
}

// Returns the curves of the loss and of the loss scale, which together take `rows` rows. If the job has no loss scale,
// the loss curve gets all rows.
std::string Curves(const WatchedJob& watched, const ScreenOptions& options, int rows) {
  const auto scaled = [](const PlotPoint& point) { return point.value > 1; };
  const bool scaling = std::any_of(watched.scales().begin(), watched.scales().end(), scaled);
  const int inner = rows - (scaling ? 2 : 1) * kCurveExtra;
  const int loss_rows = scaling ? std::max(kMinCurveRows, inner * 3 / 5) : inner;
  PlotOptions plot{options.width, loss_rows, options.ascii, false};
  const std::string text = options.palette.Bold("loss") + "\n" + PlotCurve(watched.losses(), plot);
  if (!scaling) {
    return text;
  }
  plot.height = std::max(kMinCurveRows, inner - loss_rows);
  plot.log2 = true;
  return text + ScaleHeading(watched, options) + PlotCurve(watched.scales(), plot);
}

std::string LossLine(const WatchedJob& watched, const ScreenOptions& options) {
  std::vector<double> losses;
  for (const PlotPoint& point : watched.losses()) {
    losses.push_back(point.value);
  }
  const std::string value = " " + FormatNumber(watched.loss());
  const int width = options.width - DisplayWidth("loss ") - DisplayWidth(value);
  return width < 1 || losses.empty() ? "" : "loss " + Sparkline(losses, width, options.ascii) + value + "\n";
}

// Returns the first `most` rows of the text, each truncated to `width`.
std::string Bounded(const std::string& text, int most, int width) {
  const std::vector<std::string> rows = absl::StrSplit(text, '\n', absl::SkipEmpty());
  std::string bounded;
  for (size_t row = 0; row < rows.size() && static_cast<int>(row) < most; ++row) {
    bounded += ClipTo(rows[row], width) + "\n";
  }
  return bounded;
}

int CountRows(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

}  // namespace

std::string RenderEvent(const v1::Event& event) {
  std::string text = EnumText(event.kind());
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return c == '_' ? ' ' : static_cast<char>(std::tolower(c)); });
  if (text.starts_with("attempt ") && event.attempt() > 0) {
    text.insert(text.find(' '), absl::StrCat(" ", event.attempt()));
  }
  if (event.kind() == v1::Event::STATE_CHANGED) {
    text = EnumText(event.to_state());
  } else if (event.to_state() != v1::Job::STATE_UNSPECIFIED) {
    absl::StrAppend(&text, ", ", EnumText(event.to_state()));
  }
  const std::string step = absl::StrCat("step ", event.step());
  if (event.step() > 0 && !absl::StrContains(event.message(), step)) {
    absl::StrAppend(&text, " at ", step);
  }
  if (!event.message().empty()) {
    absl::StrAppend(&text, ": ", Printable(event.message()));
  }
  // Name all modules with underflow, because the event's message names only the worst one.
  const auto modules = event.attributes().find("modules");
  if (event.kind() == v1::Event::UNDERFLOW && modules != event.attributes().end() &&
      absl::StrContains(modules->second, ", ")) {
    absl::StrAppend(&text, "; shares by module: ", Printable(modules->second));
  }
  return text;
}

std::string RenderWatchLine(const WatchedJob& watched, const std::string& program) {
  const std::string why = StateReason(watched, program);
  std::string line = absl::StrCat(EnumText(watched.job().state()), why.empty() ? "" : ": " + why);
  if (watched.progress().step() > 0) {
    line = Words({line, StepText(watched), LossText(watched), "loss scale " + FormatNumber(watched.loss_scale()),
                  absl::StrCat("skipped ", watched.progress().skipped_steps()), PaceText(watched),
                  MemoryText(watched.progress(), /*has_peak=*/false), TimeText(watched)});
  }
  return line;
}

std::string RenderWatchScreen(const WatchedJob& watched, const ScreenOptions& options) {
  const int last_row = options.notice.empty() ? 0 : 1;
  const std::string progress = ProgressRow(watched, options);
  std::string text = Head(watched, options) + progress;
  if (CountRows(text) > options.height - last_row) {
    text = ShortHead(watched, options) + progress;
  }
  text += NumberRows(watched, options.width);
  const auto& events = watched.events();
  const int num_events = std::min<int>(static_cast<int>(events.size()), kMostEvents);
  const int rows = std::min(options.height - CountRows(text) - num_events - last_row, kMostCurveRows);
  if (rows >= 2 * (kCurveExtra + kMinCurveRows) && !watched.losses().empty()) {
    text += Curves(watched, options, rows);
  } else {
    text += LossLine(watched, options);
  }
  const int room = std::clamp(options.height - last_row - CountRows(text), 0, num_events);
  for (size_t i = events.size() - room; i < events.size(); ++i) {
    text += options.palette.Dim(RenderEvent(events[i])) + "\n";
  }
  text = Bounded(text, options.height - last_row, options.width);
  return options.notice.empty() ? text : text + options.palette.Dim(ClipTo(options.notice, options.width)) + "\n";
}

}  // namespace ampd::client
