// Compares the plateau schedule with torch.optim.lr_scheduler.ReduceLROnPlateau.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/parity/oracle.h"
#include "worker/amp/plateau.h"

namespace ampd::parity {
namespace {

using amp::Plateau;
using amp::PlateauConfig;

constexpr double kLearningRate = 0x1p-7;  // The same as in oracle_plateau.py.

TEST(PlateauParity, EveryRateIsTorchsOverRandomLosses) {
  for (const PlateauConfig& config :
       {PlateauConfig(),
        {.factor = 0.5, .patience_evals = 0},
        {.factor = 0.5, .patience_evals = 2, .threshold = 0},
        {.factor = 0.3, .patience_evals = 3, .threshold = 0.01, .cooldown_evals = 5},
        {.factor = 0.25, .patience_evals = 1, .cooldown_evals = 1, .min_learning_rate = 1e-4}}) {
    const auto oracle =
        RunOracle("oracle_plateau", {"7", "600", absl::StrCat(config.factor), absl::StrCat(config.patience_evals),
                                     absl::StrCat(config.threshold), absl::StrCat(config.cooldown_evals),
                                     absl::StrCat(config.min_learning_rate)});
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    const auto* losses = oracle->at("losses").const_data_ptr<float>();
    const auto* rates = oracle->at("rates").const_data_ptr<float>();
    Plateau plateau(config, kLearningRate);
    int num_falls = 0;
    for (int64_t i = 0; i < oracle->at("losses").numel(); ++i) {
      const double before = plateau.learning_rate();
      const bool fell = plateau.Observe(losses[i]);
      num_falls += fell ? 1 : 0;
      ASSERT_EQ(fell, plateau.learning_rate() < before);
      ASSERT_FLOAT_EQ(static_cast<float>(plateau.learning_rate()), rates[i])
          << "evaluation " << i << " of factor " << config.factor << " patience " << config.patience_evals;
    }
    EXPECT_GT(num_falls, 1) << "factor " << config.factor;
  }
}

}  // namespace
}  // namespace ampd::parity
