#include "worker/train/loop/in_flight_steps.h"

#include <algorithm>
#include <utility>

namespace ampd::train {

InFlightSteps::ReadStep InFlightSteps::Read(Instant now) {
  Step& step = steps_.front();
  const Instant alone_from = std::max(step.begin, std::exchange(last_read_, now));
  const double seconds = std::chrono::duration<double>(now - alone_from).count();
  if (std::exchange(has_read_, true)) {
    ++num_steady_;
    steady_seconds_ += seconds;
  }
  ReadStep read{std::move(step), seconds};
  steps_.pop_front();
  return read;
}

}  // namespace ampd::train
