#include "worker/amp/step_kernels.h"

#include <algorithm>

#include "ATen/Parallel.h"
#include "worker/amp/cuda_step_kernels.h"
#include "worker/amp/step_rows.h"

namespace ampd::amp {
namespace {

using kernels::GradientFacts;
using kernels::TensorRow;

// Calls body(row, begin, end, chunk) for every chunk of every row, on the threads of LibTorch. What a chunk does
// depends on nothing but itself, so results do not depend on how many threads there are.
template <typename Body>
void ForEachChunk(const StepRows& table, const Body& body) {
  at::parallel_for(0, table.num_chunks, 1, [&](int64_t first, int64_t last) {
    // The last row that begins at or before the first chunk.
    auto row = std::upper_bound(table.rows.begin(), table.rows.end(), first,
                                [](int64_t chunk, const TensorRow& one) { return chunk < one.first_chunk; }) -
               1;
    for (int64_t chunk = first; chunk < last; ++chunk) {
      if (chunk - row->first_chunk == kernels::NumChunks(row->count)) {
        ++row;
      }
      const int64_t begin = (chunk - row->first_chunk) * kernels::kChunkElements;
      body(*row, begin, std::min(begin + kernels::kChunkElements, row->count), chunk);
    }
  });
}

class CpuStepKernels final : public StepKernels {
 public:
  explicit CpuStepKernels(const kernels::CpuKernels& loops) : loops_(loops) {}

  std::vector<GradientFacts> Examine(const std::vector<at::Tensor>& gradients) override {
    const StepRows table = RowsToExamine(gradients);
    std::vector<GradientFacts> of_chunks(table.num_chunks);
    ForEachChunk(table, [&](const TensorRow& row, int64_t begin, int64_t end, int64_t chunk) {
      of_chunks[chunk] = loops_.examine(row, begin, end);
    });
    std::vector<GradientFacts> facts(gradients.size());
    for (size_t k = 0; k < table.rows.size(); ++k) {
      GradientFacts& sum = facts[table.places[k]];
      const int64_t first = table.rows[k].first_chunk;
      for (int64_t chunk = first; chunk < first + kernels::NumChunks(table.rows[k].count); ++chunk) {
        sum.sum_squares += of_chunks[chunk].sum_squares;
        sum.num_non_finite += of_chunks[chunk].num_non_finite;
      }
    }
    return facts;
  }

  void Accumulate(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& sums) override {
    ForEachChunk(RowsToAccumulate(gradients, sums), [&](const TensorRow& row, int64_t begin, int64_t end, int64_t) {
      loops_.accumulate(row, begin, end);
    });
  }

  void UpdateAdam(const kernels::AdamStep& step, const kernels::StepScalars& scalars,
                  const std::vector<StepTensors>& tensors) override {
    ForEachChunk(RowsToUpdate(tensors), [&](const TensorRow& row, int64_t begin, int64_t end, int64_t) {
      loops_.update_adam(step, scalars, row, begin, end);
    });
  }

  void UpdateSgd(const kernels::SgdStep& step, const kernels::StepScalars& scalars,
                 const std::vector<StepTensors>& tensors) override {
    ForEachChunk(RowsToUpdate(tensors), [&](const TensorRow& row, int64_t begin, int64_t end, int64_t) {
      loops_.update_sgd(step, scalars, row, begin, end);
    });
  }

  void Round(const std::vector<StepTensors>& tensors) override {
    ForEachChunk(RowsToRound(tensors),
                 [&](const TensorRow& row, int64_t begin, int64_t end, int64_t) { loops_.round(row, begin, end); });
  }

 private:
  const kernels::CpuKernels& loops_;
};

}  // namespace

std::unique_ptr<StepKernels> StepKernels::Make(const ComputeDevice& device) {
  if (device.cuda_kernels != nullptr) {
    return MakeCudaStepKernels(device);
  }
  return std::make_unique<CpuStepKernels>(device.cpu_kernels != nullptr ? *device.cpu_kernels : kernels::BestKernels());
}

}  // namespace ampd::amp
