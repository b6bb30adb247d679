#include "worker/amp/fp8/cuda_fp8_quantizer.h"

#include <algorithm>
#include <cmath>

#include "ATen/ops/empty.h"
#include "ATen/ops/empty_strided.h"
#include "ATen/ops/zeros.h"
#include "worker/amp/step/cuda_error.h"
#include "worker/amp/step/current_stream.h"
#include "worker/amp/step/format.h"

namespace ampd::amp {
namespace {

using kernels::CudaFp8Matrix;
using kernels::CudaFp8Output;
using kernels::kFp8Block;

int64_t NumBlocks(int64_t size) { return (size + kFp8Block - 1) / kFp8Block; }

// Allocates an FP8 matrix (R, C), with its scales in the layout that the kernels write.
Fp8Matrix EmptyMatrix(int64_t rows, int64_t columns, const Fp8Order& order, const at::Device& device) {
  const auto options = at::TensorOptions().device(device);
  Fp8Matrix matrix;
  matrix.data = at::empty({rows, columns}, options.dtype(order.format));
  switch (order.grain) {
    case Fp8Grain::kTensor:
      matrix.block = {rows, columns};
      matrix.inverse_scale = at::empty({1, 1}, options.dtype(at::kFloat));
      break;
    case Fp8Grain::kRows:
      matrix.block = {1, kFp8Block};
      matrix.inverse_scale = at::empty_strided({rows, NumBlocks(columns)}, {1, rows}, options.dtype(at::kFloat));
      break;
    case Fp8Grain::kSquares:
      matrix.block = {kFp8Block, kFp8Block};
      matrix.inverse_scale = at::empty({NumBlocks(rows), NumBlocks(columns)}, options.dtype(at::kFloat));
      break;
  }
  return matrix;
}

// Describes a matrix to the kernels as an output. If the matrix has no data, the kernels do not write it.
CudaFp8Output OutputOf(const Fp8Matrix& matrix) {
  if (!matrix.data.defined()) {
    return {};
  }
  return {static_cast<uint8_t*>(matrix.data.data_ptr()), matrix.inverse_scale.mutable_data_ptr<float>()};
}

// Hands out cells for amaxes: (1, 1) fp32 tensors that are 0. Outside of Begin and End, every cell is a tensor of its
// own. Between Begin and End, the cells are parts of one tensor, so one launch fills them all with zeros. If that
// tensor has too few cells, because no earlier step used so many, the next cells are parts of a further tensor.
class AmaxCells {
 public:
  explicit AmaxCells(c10::Device device) : options_(at::TensorOptions(at::kFloat).device(device)) {}

  void Begin() {
    is_open_ = true;
    num_used_ = 0;
  }

  void End() {
    is_open_ = false;
    free_ = at::Tensor();
    num_cells_ = std::max(num_cells_, num_used_);
  }

  at::Tensor Next() {
    if (!is_open_) {
      return at::zeros({1, 1}, options_);
    }
    ++num_used_;
    if (!free_.defined() || free_.size(0) == 0) {
      free_ = at::zeros({num_cells_, 1}, options_);
    }
    const at::Tensor cell = free_.narrow(0, 0, 1);
    free_ = free_.narrow(0, 1, free_.size(0) - 1);
    return cell;
  }

 private:
  const at::TensorOptions options_;
  bool is_open_ = false;
  int64_t num_cells_ = 256;  // Cells of a new tensor: at least as many as any step has used.
  int64_t num_used_ = 0;     // Cells used since Begin.
  at::Tensor free_;          // (F, 1); undefined if no cell was used since Begin.
};

class CudaFp8Quantizer final : public Fp8Quantizer {
 public:
  CudaFp8Quantizer(const precision::Fp8Recipe& recipe, const ComputeDevice& device)
      : recipe_(recipe), kernels_(*device.cuda_kernels), device_(device.device), cells_(device.device) {}

  void BeginPasses() override { cells_.Begin(); }
  void EndPasses() override { cells_.End(); }
  at::Tensor AmaxCell() override { return cells_.Next(); }

  Fp8Forms Quantize(const at::Tensor& matrix, const Fp8Order& order) override {
    Fp8Forms forms;
    if (order.plain) {
      forms.plain = EmptyMatrix(matrix.size(0), matrix.size(1), order, device_);
    }
    if (order.transposed) {
      forms.transposed = EmptyMatrix(matrix.size(1), matrix.size(0), order, device_);
    }
    // If the columns of the matrix are contiguous, quantize its transpose instead, which needs no copy. The plain form
    // of the transpose is the transposed form of the matrix, and the other way round.
    const bool reads_transpose = !matrix.is_contiguous() && matrix.t().is_contiguous();
    const at::Tensor source = reads_transpose ? matrix.t() : matrix.contiguous();
    CudaFp8Matrix pass = PassOver(source, order);
    pass.plain = OutputOf(reads_transpose ? forms.transposed : forms.plain);
    pass.transposed = OutputOf(reads_transpose ? forms.plain : forms.transposed);
    if (order.grain == Fp8Grain::kTensor) {
      const bool is_amax_known = order.known_amax.defined();
      forms.amax = is_amax_known ? order.known_amax : cells_.Next();
      const float* known = order.known_scale.defined() ? order.known_scale.const_data_ptr<float>() : nullptr;
      Check(kernels_.fp8->quantize_tensor(&pass, known, forms.amax.mutable_data_ptr<float>(), is_amax_known,
                                          CurrentStream(device_)));
    } else if (order.grain == Fp8Grain::kRows) {
      Check(kernels_.fp8->quantize_rows(&pass, CurrentStream(device_)));
    } else {
      Check(kernels_.fp8->quantize_squares(&pass, CurrentStream(device_)));
    }
    return forms;
  }

 private:
  CudaFp8Matrix PassOver(const at::Tensor& source, const Fp8Order& order) const {
    CudaFp8Matrix pass;
    pass.source = source.const_data_ptr();
    pass.source_format = FormatOf(source);
    pass.rows = source.size(0);
    pass.columns = source.size(1);
    pass.format = order.format == at::kFloat8_e5m2 ? kernels::Fp8Format::kE5M2 : kernels::Fp8Format::kE4M3;
    pass.scaling.largest = static_cast<float>(std::ldexp(LargestOf(order.format), -recipe_.margin));
    pass.scaling.smallest_amax = static_cast<float>(recipe_.amax_epsilon);
    pass.scaling.power_of_two = recipe_.power_of_two_scales;
    return pass;
  }

  void Check(int error) const { CheckCuda(kernels_, error); }

  const precision::Fp8Recipe recipe_;
  const kernels::CudaKernels& kernels_;
  const c10::Device device_;
  AmaxCells cells_;
};

}  // namespace

std::unique_ptr<Fp8Quantizer> MakeCudaFp8Quantizer(const precision::Fp8Recipe& recipe, const ComputeDevice& device) {
  return std::make_unique<CudaFp8Quantizer>(recipe, device);
}

}  // namespace ampd::amp
