#pragma once

#include <limits>

namespace ampd::amp {

// When the learning rate falls, and by how much; the defaults are torch.optim.lr_scheduler.ReduceLROnPlateau's.
struct PlateauConfig {
  double factor = 0.1;
  int patience_evals = 10;  // evaluations in a row without improvement that are tolerated
  double threshold = 1e-4;  // an improvement is a loss below (1 - threshold) of the best
  int cooldown_evals = 0;   // evaluations after a fall that do not count
  double min_learning_rate = 0;
};

// All that a checkpoint must hold of it.
struct PlateauState {
  double best_loss = std::numeric_limits<double>::infinity();
  int num_bad_evals = 0;
  int cooldown_left = 0;
  double rate_factor = 1;  // what all rates are multiplied by
  friend bool operator==(const PlateauState&, const PlateauState&) = default;
};

// The learning rate over evaluations: it is multiplied by the factor when the evaluation's loss has stopped falling.
// ReduceLROnPlateau in its mode "min" with a relative threshold, on the optimizer's rate; parameter groups with rates
// of their own keep their ratio to it. A loss that is not a number is no improvement. Pure; thread-compatible.
class Plateau {
 public:
  Plateau(const PlateauConfig& config, double learning_rate) : config_(config), learning_rate_(learning_rate) {}

  // Takes in an evaluation's loss; whether the rate fell.
  bool Observe(double loss);

  double learning_rate() const { return learning_rate_ * state_.rate_factor; }
  const PlateauState& state() const { return state_; }
  void Restore(const PlateauState& state) { state_ = state; }

 private:
  bool Reduce();

  const PlateauConfig config_;
  const double learning_rate_;
  PlateauState state_;
};

}  // namespace ampd::amp
