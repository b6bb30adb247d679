#include "worker/amp/plateau.h"

#include <algorithm>

namespace ampd::amp {
namespace {

// `eps` of ReduceLROnPlateau: if the rate would fall by less than this, it stays as it is.
constexpr double kMinFall = 1e-8;

}  // namespace

bool Plateau::Observe(double loss) {
  if (loss < state_.best_loss * (1 - config_.threshold)) {
    state_.best_loss = loss;
    state_.num_bad_evals = 0;
  } else {
    ++state_.num_bad_evals;
  }
  if (state_.cooldown_left > 0) {
    --state_.cooldown_left;
    state_.num_bad_evals = 0;
  }
  if (state_.num_bad_evals <= config_.patience_evals) {
    return false;
  }
  state_.cooldown_left = config_.cooldown_evals;
  state_.num_bad_evals = 0;
  return Reduce();
}

bool Plateau::Reduce() {
  const double next = std::max(learning_rate() * config_.factor, config_.min_learning_rate);
  if (learning_rate() - next <= kMinFall) {
    return false;
  }
  state_.rate_factor = next / learning_rate_;
  return true;
}

}  // namespace ampd::amp
