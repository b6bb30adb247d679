#pragma once

#include <vector>

#include "worker/amp/step/step_kernels.h"
#include "worker/kernels/tensor_row.h"

namespace ampd::amp {

// The rows of one pass of kernels over tensors. A row describes a tensor by the pointers that kernels read. Undefined
// and empty tensors have no row. The number of a row is the index of its tensor among the pass's arguments, so the
// numbers may have gaps.
struct StepRows {
  std::vector<kernels::TensorRow> rows;
  int64_t num_chunks = 0;
};

StepRows RowsToMeasure(const std::vector<at::Tensor>& gradients);
// Rows for adding gradients to sums. REQUIRES: sums[i] is defined if gradients[i] is.
StepRows RowsToAccumulate(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& sums);
StepRows RowsToUpdate(const std::vector<StepTensors>& tensors);
// Rows for rounding masters into their leaves. A tensor whose leaf is the master itself has no row.
StepRows RowsToRound(const std::vector<StepTensors>& tensors);
StepRows RowsToCopy(const std::vector<TensorCopy>& copies);

}  // namespace ampd::amp
