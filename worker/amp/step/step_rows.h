#pragma once

#include <vector>

#include "worker/amp/step/step_kernels.h"
#include "worker/kernels/tensor_row.h"

namespace ampd::amp {

// The rows of one pass: tensors in, kernels' pointers out. Undefined and empty tensors have none; a row's number is its
// tensor's place in what the pass was given.
struct StepRows {
  std::vector<kernels::TensorRow> rows;
  int64_t num_chunks = 0;
};

StepRows RowsToExamine(const std::vector<at::Tensor>& gradients);
// REQUIRES: sums[i] is defined where gradients[i] is.
StepRows RowsToAccumulate(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& sums);
StepRows RowsToUpdate(const std::vector<StepTensors>& tensors);
// Of the tensors that have a copy to round to.
StepRows RowsToRound(const std::vector<StepTensors>& tensors);

}  // namespace ampd::amp
