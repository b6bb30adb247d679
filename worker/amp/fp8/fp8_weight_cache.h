#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/amp/fp8/fp8_quantizer.h"

namespace ampd::amp {

// Keeps the FP8 forms of weights (the FP8 matrix and its transpose), so that all micro-batches of a step, and its
// forward and backward passes, use the same ones. It holds forms only between Open and Close; meanwhile no optimizer
// updates weights and no state is imported. The forms of a weight are used only as long as the weight has the version
// (LibTorch's count of writes to a tensor) that it had when they were made. So an op that writes a parameter makes
// the parameter's forms unusable.
//
// Only parameters and views of them are kept. A weight that an op computes, for example a cast, is another tensor in
// each micro-batch.
//
// If the step is recorded, the work between Open and Close is recorded as a whole, so that each replay quantizes each
// weight again. Thread-compatible.
class Fp8WeightCache {
 public:
  // The FP8 forms of one weight of one layer.
  struct Entry {
    at::Tensor weight;  // Holds the memory, so that no other tensor gets its address.
    uint32_t version = 0;
    Fp8Forms forms;              // Those that were made so far.
    bool amax_recorded = false;  // The amax is among the step's measurements.
  };

  // Sets the parameters whose forms may be kept. Later tensors with the same memory count as these parameters.
  void SetParameters(const std::vector<at::Tensor>& parameters);

  // Begins a time in which the weights do not change. REQUIRES: the cache is closed.
  void Open();
  // Ends the time that Open began, and drops all forms.
  void Close();

  // Returns the entry of `weight` in a layer. If the weight was not seen since Open, or has changed, the entry is new
  // and has no forms. Returns null if the cache is closed or the weight is not a parameter. Valid until the next
  // call.
  Entry* Find(size_t layer, const at::Tensor& weight);

 private:
  bool is_open_ = false;
  std::set<const void*> parameters_;         // By the address of their memory.
  std::vector<std::vector<Entry>> entries_;  // By layer. A module with several weights has several entries.
};

}  // namespace ampd::amp
