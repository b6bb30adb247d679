#pragma once

#include <limits>

namespace ampd::amp {

// When and by how much the learning rate falls; the defaults are torch.optim.lr_scheduler.ReduceLROnPlateau's.
struct PlateauConfig {
  double factor = 0.1;
  int patience_evals = 10;  // Consecutive evaluations without improvement that are tolerated.
  double threshold = 1e-4;  // A loss below (1 - threshold) of the best is an improvement.
  int cooldown_evals = 0;   // After the rate fell, evaluations that do not count towards the patience.
  double min_learning_rate = 0;
};

// The state of a Plateau, which a checkpoint must hold.
struct PlateauState {
  double best_loss = std::numeric_limits<double>::infinity();
  int num_bad_evals = 0;
  int cooldown_left = 0;
  double rate_factor = 1;  // Multiplies all rates.
  friend bool operator==(const PlateauState&, const PlateauState&) = default;
};

// Lowers the learning rate when the evaluation loss has stopped falling: multiplies it by the factor. This is
// ReduceLROnPlateau in mode "min" with a relative threshold, applied to the optimizer's rate. Parameter groups with
// their own rates keep their ratio to that rate. A NaN loss is not an improvement. Pure. Thread-compatible.
class Plateau {
 public:
  Plateau(const PlateauConfig& config, double learning_rate) : config_(config), learning_rate_(learning_rate) {}

  // Records an evaluation's loss; returns whether the rate fell.
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
