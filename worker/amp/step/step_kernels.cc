#include "worker/amp/step/step_kernels.h"

#include <algorithm>

#include "ATen/Parallel.h"
#include "worker/amp/step/cuda_step_kernels.h"
#include "worker/amp/step/step_rows.h"

namespace ampd::amp {
namespace {

using kernels::GradientStats;
using kernels::TensorRow;

// Calls body(row, begin, end, chunk) for every chunk of every row, on LibTorch's threads. Chunks are independent, so
// results do not depend on the number of threads.
template <typename Body>
void ForEachChunk(const StepRows& table, const Body& body) {
  at::parallel_for(0, table.num_chunks, 1, [&](int64_t first, int64_t last) {
    // Find the row that contains the first chunk.
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

void Add(const GradientStats& stats, GradientStats& sum) {
  sum.sum_squares += stats.sum_squares;
  sum.num_non_finite += stats.num_non_finite;
}

class CpuStepKernels final : public StepKernels {
 public:
  explicit CpuStepKernels(const kernels::CpuKernels& loops) : loops_(loops) {}

  void ComputeGradStats(const std::vector<at::Tensor>& gradients, GradientStats* stats) override {
    const StepRows table = RowsToMeasure(gradients);
    std::vector<GradientStats> of_chunks(table.num_chunks);
    ForEachChunk(table, [&](const TensorRow& row, int64_t begin, int64_t end, int64_t chunk) {
      of_chunks[chunk] = loops_.compute_grad_stats(row, begin, end);
    });
    std::fill_n(stats, gradients.size(), GradientStats());
    for (const TensorRow& row : table.rows) {
      for (int64_t chunk = row.first_chunk; chunk < row.first_chunk + kernels::NumChunks(row.count); ++chunk) {
        Add(of_chunks[chunk], stats[row.number]);
      }
    }
  }

  void Decide(const kernels::StepControl& control, int first_phase, int num_phases) override {
    for (int i = first_phase; i < first_phase + num_phases; ++i) {
      kernels::PhaseBlock& phase = control.phases[i];
      GradientStats sum;
      for (int64_t k = phase.first_stat; k < phase.first_stat + phase.num_stats; ++k) {
        Add(control.stats[k], sum);
      }
      kernels::CheckFinite(*control.step, sum, phase);
    }
    kernels::FinalizeTogether(control, first_phase, num_phases);
  }

  void EndStep(const kernels::StepControl& control) override { kernels::EndStep(control); }

  void Accumulate(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& sums) override {
    ForEachChunk(RowsToAccumulate(gradients, sums), [&](const TensorRow& row, int64_t begin, int64_t end, int64_t) {
      loops_.accumulate(row, begin, end);
    });
  }

  void UpdateAdam(const kernels::AdamStep& step, const kernels::StepDecision* decision,
                  const std::vector<StepTensors>& tensors) override {
    if (decision->skip) {
      return;
    }
    const kernels::AdamStep decided = kernels::Decided(step, *decision);
    ForEachChunk(RowsToUpdate(tensors), [&](const TensorRow& row, int64_t begin, int64_t end, int64_t) {
      loops_.update_adam(decided, decision->scalars, row, begin, end);
    });
  }

  void UpdateSgd(const kernels::SgdStep& step, const kernels::StepDecision* decision,
                 const std::vector<StepTensors>& tensors) override {
    if (decision->skip) {
      return;
    }
    const kernels::SgdStep decided = kernels::Decided(step, *decision);
    ForEachChunk(RowsToUpdate(tensors), [&](const TensorRow& row, int64_t begin, int64_t end, int64_t) {
      loops_.update_sgd(decided, decision->scalars, row, begin, end);
    });
  }

  void Round(const std::vector<StepTensors>& tensors) override {
    ForEachChunk(RowsToRound(tensors),
                 [&](const TensorRow& row, int64_t begin, int64_t end, int64_t) { loops_.round(row, begin, end); });
  }

  void Copy(const std::vector<TensorCopy>& copies, const kernels::StepDecision* if_skipped) override {
    if (if_skipped != nullptr && !if_skipped->skip) {
      return;
    }
    for (const TensorCopy& copy : copies) {
      copy.to.copy_(copy.from);
    }
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
