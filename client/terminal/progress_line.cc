#include "client/terminal/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "client/render/plot.h"

namespace ampd::client {
namespace {

constexpr std::chrono::milliseconds kBetween(100);
constexpr std::chrono::milliseconds kBeforeFirst(400);
constexpr int kMaxWidth = 60;

}  // namespace

ProgressLine::ProgressLine(const Session& session)
    : shown_(isatty(STDERR_FILENO) == 1 && !session.options().quiet),
      ascii_(session.ascii()),
      width_(std::min(session.width() - 1, kMaxWidth)),
      next_(std::chrono::steady_clock::now() + kBeforeFirst) {}

void ProgressLine::Clear() {
  if (std::exchange(is_drawn_, false)) {
    std::fputs("\r\033[K", stderr);
  }
}

void ProgressLine::Show(double fraction) {
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now >= next_) {
    next_ = now + kBetween;
    is_drawn_ = true;
    std::fprintf(stderr, "\r%s", ProgressBar(std::clamp(fraction, 0.0, 1.0), width_, ascii_).c_str());
  }
}

}  // namespace ampd::client
