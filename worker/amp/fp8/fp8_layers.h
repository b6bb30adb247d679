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
#include "worker/amp/fp8/fp8_weight_cache.h"
#include "worker/executor/executor.h"

namespace ampd::amp {

// The three operands of a layer's FP8 products, and the three products.
enum class Fp8Operand { kInput, kWeight, kGradient };
enum class Fp8Product { kForward, kInputGradient, kWeightGradient };
inline constexpr int kFp8Operands = 3;
inline constexpr int kFp8Products = 3;

// Says over which dimensions of an operand (R, C) its products sum. One product may sum over R and another over C. With
// block scales, the blocks of 128 numbers lie along these dimensions.
struct Fp8Sums {
  bool over_columns = false;
  bool over_rows = false;
  bool any() const { return over_columns || over_rows; }
};

// An operand quantized for its products. A product sums over the columns of its matrices, so a product that sums over
// the operand's rows needs the transposed matrix.
struct Fp8Operands {
  Fp8Matrix over_columns;  // (R, C); without data unless requested.
  Fp8Matrix over_rows;     // (C, R); without data unless requested.
};

// The measurements of a layer in a canary step, which compares FP8 products with the same products in the compute
// format.
struct Fp8Finding {
  std::string module;
  double errors[kFp8Products] = {};      // |FP8 - exact| / |exact|, by product; 0 for a product that is not in FP8.
  double underflow[kFp8Operands] = {};   // Share of nonzero numbers that FP8 rounds to zero.
  double saturation[kFp8Operands] = {};  // Share of numbers beyond the format's largest; delayed scaling only.
  bool demoted = false;                  // An error passed the bound: the layer leaves FP8 from now on.
};

// The linear layers that compute in FP8. Holds their scales, the findings of the canary, and the list of demoted
// layers. The canary is a check: in some steps it compares FP8 products with the same products in the compute format. A
// layer with too large an error is demoted: from then on it computes in a wider format.
//
//   BeginStep()        sets whether this step is a canary step
//   Fp8PassScope       lives while the forward and backward passes run, before the update
//   Quantize()         called by the op for inputs and gradients, in the forward and the backward pass
//   QuantizeWeight()   the same for weights
//   Compare()          called by the op, in canary steps
//   EndStep()          computes the scales of the next steps from this step's amaxes (largest magnitudes), on the
//                      device
//   Judge()            reads the canary's measurements and demotes layers, once the host knows that the step was
//                      applied
//
// While an Fp8PassScope lives, each parameter is quantized once for a layer. All micro-batches, both passes and
// recomputed checkpoint segments use the same FP8 weights, which have the same bits as newly made ones. Without a
// scope, as in evaluations, a weight is quantized for each product.
//
// Scales change only between steps, so micro-batches, recomputed checkpoint segments and evaluations quantize alike. A
// skipped step leaves the scales unchanged and demotes no layer. With delayed scaling, a layer without a history of
// amaxes uses the current amax.
//
// All numbers stay on the device, in tensors with fixed addresses, so a step may begin before the host knows the result
// of the last one. A canary step is the exception: Judge must run before the next step begins, because a demotion
// changes the kernels that the next step launches. So a demotion always takes effect with the step after the canary
// step. Single-threaded, except for the backward pass, which runs on autograd's thread while the step waits for it.
class Fp8Layers : public torch::CustomClassHolder {
 public:
  Fp8Layers(const precision::Fp8Recipe& recipe, const std::vector<precision::Fp8Layer>& layers,
            const ComputeDevice& device);

  const precision::Fp8Recipe& recipe() const { return recipe_; }
  bool demoted(size_t layer) const { return demoted_[layer]; }
  // The number of times that the set of demoted layers has changed. After a change, steps launch other kernels, so a
  // recorded step is out of date.
  int64_t num_changes() const { return num_changes_; }
  // Whether this is a canary step, in which FP8 products are compared with the same products in the compute format.
  bool canary() const { return canary_; }

  // Sets the parameters that are quantized once while an Fp8PassScope lives. A weight that an op computes is
  // quantized for each product.
  void SetParameters(const std::vector<at::Tensor>& parameters) { weights_.SetParameters(parameters); }

  void BeginStep(int64_t step);

  // Quantizes an operand of a layer for its products. `records`: whether this is part of a training step, whose
  // measurements are recorded. `known_amax`: the amax of the matrix (1, 1), if an earlier op has found it; undefined
  // otherwise. REQUIRES: `matrix` is (R, C), fp32 or bf16.
  Fp8Operands Quantize(size_t layer, Fp8Operand operand, const at::Tensor& matrix, Fp8Sums sums, bool records,
                       const at::Tensor& known_amax = {});

  // Quantizes the weight of a layer for its products. `sums`: the dimensions that the next product sums over.
  // `later`: those that other products of the same passes will sum over. If the FP8 weight can be kept until then,
  // the weight is read once for all these products.
  Fp8Operands QuantizeWeight(size_t layer, const at::Tensor& weight, Fp8Sums sums, Fp8Sums later, bool records);

  // Returns a cell for an op that finds the amax of a layer's input (Fp8Quantizer::AmaxCell).
  at::Tensor AmaxCell() { return quantizer_->AmaxCell(); }

  // Multiplies two matrices in FP8 in the way that the device supports (Product in fp8_tensor.h).
  at::Tensor Multiply(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                      at::ScalarType dtype, bool fast_accumulation) const {
    return Product(a, b, bias, dtype, fast_accumulation, native_);
  }

  // Records the relative error of `in_fp8`, compared with `exact`, the same product in the compute format. Of all
  // errors recorded in a step, the largest counts.
  void Compare(size_t layer, Fp8Product product, const at::Tensor& in_fp8, const at::Tensor& exact);

  // Ends the step that the last BeginStep began. `skipped`: bool, 0-dim, on the device. Does not wait.
  void EndStep(const at::Tensor& skipped);

  // Returns the findings of the last step that ended, one per layer that still computed in FP8. The result is empty if
  // this step was skipped, or was not a canary step (one that compares FP8 products with the same products in the
  // compute format). After a canary step the call waits for the device. REQUIRES: EndStep was called.
  std::vector<Fp8Finding> Judge(bool skipped);

  // The state of the layers as tensors on the CPU, by "MODULE.scale" and the like. A tensor that is missing on import,
  // for example because the layer computed in another format, starts from zero.
  executor::TensorMap ExportState() const;
  void ImportState(const executor::TensorMap& state);

 private:
  friend class Fp8PassScope;

  at::ScalarType FormatOf(Fp8Operand operand) const;
  Fp8Grain GrainOf(Fp8Operand operand) const;
  Fp8Forms FormsOf(size_t layer, Fp8Operand operand, const at::Tensor& matrix, Fp8Sums sums,
                   const at::Tensor& known_amax);
  void RecordAmax(size_t layer, Fp8Operand operand, const at::Tensor& amax);
  void SampleForms(size_t layer, Fp8Operand operand, const at::Tensor& matrix, Fp8Sums sums, const Fp8Forms& forms);
  void Sample(size_t layer, Fp8Operand operand, const at::Tensor& matrix, const Fp8Matrix& quantized);

  const precision::Fp8Recipe recipe_;
  const std::unique_ptr<Fp8Quantizer> quantizer_;
  const NativeFp8 native_;
  Fp8WeightCache weights_;
  std::vector<std::string> modules_;
  std::vector<bool> demoted_;
  int64_t num_changes_ = 0;
  bool canary_ = false;
  // Shapes of the following tensors: L layers, 3 operands or products of each, H steps of history. All are fp32 on the
  // device.
  at::Tensor scales_;      // (L, 3), delayed scaling only; 0: no amax was seen
  at::Tensor history_;     // (L, 3, H), delayed scaling only, newest first
  at::Tensor of_step_;     // (4, L, 3), measurements of the step so far; the next four are views of it
  at::Tensor amaxes_;      // (L, 3), delayed scaling only
  at::Tensor errors_;      // (L, 3); this and the next two: canary steps only
  at::Tensor underflow_;   // (L, 3)
  at::Tensor saturation_;  // (L, 3)
};

// Lives while the forward and backward passes over a step's micro-batches run. Does nothing if `layers` is null.
// REQUIRES: no weight is updated meanwhile; `layers` outlives the scope; no other scope of these layers lives.
class Fp8PassScope {
 public:
  explicit Fp8PassScope(Fp8Layers* layers);
  ~Fp8PassScope();
  Fp8PassScope(const Fp8PassScope&) = delete;
  Fp8PassScope& operator=(const Fp8PassScope&) = delete;

 private:
  Fp8Layers* const layers_;
};

}  // namespace ampd::amp
