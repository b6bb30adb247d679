#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "ATen/core/ivalue.h"
#include "precision/fp8_recipe.h"
#include "worker/amp/fp8/fp8_quantizer.h"
#include "worker/amp/fp8/fp8_tensor.h"
#include "worker/executor/executor.h"

namespace ampd::amp {

// What the FP8 products of a layer take in, and the products.
enum class Fp8Operand { kInput, kWeight, kGradient };
enum class Fp8Product { kForward, kInputGradient, kWeightGradient };
inline constexpr int kFp8Operands = 3;
inline constexpr int kFp8Products = 3;

// Which sides of an operand (R, C) products sum over; blocks of 128 lie along it.
struct Fp8Sums {
  bool over_columns = false;
  bool over_rows = false;
  bool any() const { return over_columns || over_rows; }
};

// The operand as those products take it, which sum over the columns of what they are given.
struct Fp8Operands {
  Fp8Matrix over_columns;  // (R, C); without data where it was not asked for, as the next one
  Fp8Matrix over_rows;     // (C, R)
};

// What the canary saw of a layer.
struct Fp8Finding {
  std::string module;
  double errors[kFp8Products] = {};      // |FP8 - exact| / |exact|, by product; 0 of one that is not in FP8
  double underflow[kFp8Operands] = {};   // of the numbers that are not zero: the share that FP8 makes zero
  double saturation[kFp8Operands] = {};  // the share beyond the largest number: of delayed scaling only
  bool demoted = false;                  // an error passed the bound: the layer is out of FP8 from now on
};

// The linear layers that compute in FP8: their scales, what the canary found, and which of them it put out of FP8.
//
//   BeginStep()   says whether this step is the canary's
//   Quantize()    by the op, in the forward and the backward pass
//   Compare()     by the op, on the canary's steps
//   EndStep()     takes the step's amaxes into the scales of the next ones, on the device
//   Judge()       reads what the canary saw, and demotes: when the host knows that the step was applied
//
// Scales change between steps only, so that all micro-batches, checkpoint segments that run again and evaluations
// quantize alike. A skipped step leaves them as they were, and judges nobody. Delayed scaling takes the current amax as
// long as there is no history.
//
// All numbers stay on the device, in tensors that keep their place, and a step may begin before the host knows what the
// last one did. Only the canary's step is judged before another begins: a demotion, by which the host gives the device
// other work, holds from the next step on, whoever begins steps how far ahead. Single-threaded, but for the backward
// pass, which runs on autograd's thread while the step waits for it.
class Fp8Layers : public torch::CustomClassHolder {
 public:
  Fp8Layers(const precision::Fp8Recipe& recipe, const std::vector<precision::Fp8Layer>& layers,
            const ComputeDevice& device);

  const precision::Fp8Recipe& recipe() const { return recipe_; }
  bool demoted(size_t layer) const { return demoted_[layer]; }
  // Grows whenever other layers than before are demoted: steps give the device other work then.
  int64_t num_changes() const { return num_changes_; }
  // Whether products are to be compared in this step.
  bool canary() const { return canary_; }

  void BeginStep(int64_t step);

  // An operand of a layer as its recipe says. `records`: it is part of a training step. REQUIRES: (R, C), fp32 or bf16.
  Fp8Operands Quantize(size_t layer, Fp8Operand operand, const at::Tensor& matrix, Fp8Sums sums, bool records);

  // A product as the device computes it.
  at::Tensor Multiply(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                      at::ScalarType dtype, bool fast_accumulation) const {
    return Product(a, b, bias, dtype, fast_accumulation, native_);
  }

  // Tells a product and what it would be in the compute format; the worst of a step counts.
  void Compare(size_t layer, Fp8Product product, const at::Tensor& in_fp8, const at::Tensor& exact);

  // Ends the step that was begun last, as `skipped` says: bool, 0-dim, on the device. Waits for nothing.
  void EndStep(const at::Tensor& skipped);

  // The canary's findings of the step that was begun last, a layer each, once it ended; empty of other steps and
  // skipped ones. Of the canary's own it waits for the device.
  std::vector<Fp8Finding> Judge(bool skipped);

  // By "MODULE.scale" and the like, on the CPU. What is missing on import, as for a layer that computed in another
  // format, begins anew.
  executor::TensorMap ExportState() const;
  void ImportState(const executor::TensorMap& state);

 private:
  at::ScalarType FormatOf(Fp8Operand operand) const;
  Fp8Grain GrainOf(Fp8Operand operand) const;
  void Sample(size_t layer, Fp8Operand operand, const at::Tensor& matrix, const Fp8Matrix& quantized);

  const precision::Fp8Recipe recipe_;
  const std::unique_ptr<Fp8Quantizer> quantizer_;
  const NativeFp8 native_;
  std::vector<std::string> modules_;
  std::vector<bool> demoted_;
  int64_t num_changes_ = 0;
  bool canary_ = false;
  // L layers, three operands or products each, H steps of history; fp32 on the device.
  at::Tensor scales_;      // (L, 3); 0: no amax was seen. Of delayed scaling, as the next one
  at::Tensor history_;     // (L, 3, H), newest first
  at::Tensor of_step_;     // (4, L, 3), of the step so far: what the next four are views of
  at::Tensor amaxes_;      // (L, 3), of delayed scaling
  at::Tensor errors_;      // (L, 3), of the canary's steps, as the next two
  at::Tensor underflow_;   // (L, 3)
  at::Tensor saturation_;  // (L, 3)
};

}  // namespace ampd::amp
