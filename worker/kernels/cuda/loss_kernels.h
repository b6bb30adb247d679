#pragma once

#include <cstdint>

#include "worker/kernels/cpu/formats.h"

// The part of libampd_cuda.so's plain interface (cuda_kernels.h) for the cross entropy over many classes.
namespace ampd::kernels {

// A row with this target is ignored: it adds nothing to the loss.
inline constexpr int64_t kIgnoredTarget = -100;

// Logits (N, V), their targets, and what the forward pass keeps for the backward pass. All pointers are to device
// memory. Row r of the logits begins at element r * row_stride; the elements of a row are adjacent. Rows may have any
// alignment, and are read fastest if all begin at multiples of 16 bytes.
struct CudaCrossEntropy {
  const void* logits = nullptr;
  Format format = Format::kFloat32;  // Format of the logits and their gradient.
  int64_t rows = 0;                  // N
  int64_t classes = 0;               // V, at least 1.
  int64_t row_stride = 0;
  const int64_t* target = nullptr;  // (N)
  bool is_mean = true;              // The loss is the mean over the rows that are not ignored; otherwise their sum.
  float* log_sum_exp = nullptr;     // (N): log(sum(exp(logits))) of each row; 0 for an ignored row.
  float* num_counted = nullptr;     // (1): the number of rows that are not ignored.
};

// Where the backward pass writes the gradient of the logits, in their format. Row r begins at element r * row_stride
// and has V + padding elements, of which the last `padding` are set to 0. The gradient may use the memory of the
// logits, if its row_stride is that of the logits.
struct CudaLogitGradient {
  void* data = nullptr;
  int64_t row_stride = 0;
  int64_t padding = 0;
};

// Every function follows the rules of CudaKernels: it allocates nothing, does not wait, is deterministic, and returns 0
// or a cudaError_t. All arithmetic is in fp32; the losses of rows are summed in double.
//
// An ignored row is not read. If a row has a NaN or a positive infinity, its loss and its whole gradient are NaN, as
// LibTorch's are. If a target is not a class, nothing outside the row is read, and loss and gradient of the row are
// NaN, so that the step is not applied.
struct CudaLossKernels {
  // Sets *loss, and the two outputs of `pass`. The mean over no row is NaN. `row_losses` (N) is scratch. Two launches;
  // reads the logits once.
  int (*cross_entropy)(const CudaCrossEntropy* pass, float* row_losses, float* loss, void* stream);

  // Writes the gradient of the logits, (softmax(logits) - one_hot(target)) * *upstream, divided by the number of
  // counted rows if the loss is their mean. An ignored row's gradient is 0. REQUIRES: `pass` has what cross_entropy
  // wrote. One launch; reads the logits once.
  int (*cross_entropy_backward)(const CudaCrossEntropy* pass, const float* upstream, CudaLogitGradient gradient,
                                void* stream);
};

// The library's kernels for losses. The main table (cuda_kernels.h) points to them.
extern const CudaLossKernels kLossKernels;

}  // namespace ampd::kernels
