#pragma once

#include <string>
#include <string_view>

#include "graph/dtype.h"

namespace ampd::precision {

// How the operands of FP8 products are scaled into the range of the format. Transformer Engine calls this a recipe. A
// tensor or block is multiplied by its scale and rounded to nearest even; the product is divided by the scales again.
// The scale is the largest number of the format, divided by the absolute maximum ("amax") of the tensor or block.
struct Fp8Recipe {
  enum class Scaling {
    kDelayed,  // One scale per tensor, from the amaxes of past steps.
    kCurrent,  // One scale per tensor, from the tensor itself.
    kBlock,    // One scale per block: of 1x128 in inputs and gradients, of 128x128 in weights.
  };
  Scaling scaling = Scaling::kCurrent;
  graph::Dtype forward = graph::Dtype::kFloat8E4M3;   // Format of inputs and weights.
  graph::Dtype gradient = graph::Dtype::kFloat8E5M2;  // Format of the results' gradients.
  int amax_history_length = 1024;                     // kDelayed only: number of past steps.
  int margin = 0;                                     // kDelayed only: scales are divided by 2^margin.
  bool power_of_two_scales = true;                    // Scales are rounded down to powers of two, which loses no bits.
  double amax_epsilon = 1e-12;                        // A smaller amax, also 0, is replaced by this.
  int canary_every_steps = 1000;  // Steps between canary checks (FP8 products against the compute format); 0: never.
  double canary_bound = 0.25;     // A layer leaves FP8 if a check finds |FP8 - compute| / |compute| above this.
  friend bool operator==(const Fp8Recipe&, const Fp8Recipe&) = default;
};

// The major compute capability of the GPUs whose tensor cores multiply matrices with one scale per block. GPUs of other
// generations cannot do so.
inline constexpr int kFp8BlockCapabilityMajor = 9;

std::string_view ScalingName(Fp8Recipe::Scaling scaling);

// Which of the three products of a linear layer are computed in FP8.
struct Fp8Products {
  bool forward = true;
  bool input_gradient = true;
  bool weight_gradient = true;
  bool any() const { return forward || input_gradient || weight_gradient; }
  friend bool operator==(const Fp8Products&, const Fp8Products&) = default;
};

// A linear layer that computes in FP8, identified by its module's path.
struct Fp8Layer {
  std::string module_path;
  Fp8Products products;
  friend bool operator==(const Fp8Layer&, const Fp8Layer&) = default;
};

}  // namespace ampd::precision
