#include "worker/amp/captured_step.h"

#include <algorithm>
#include <utility>

#include "ATen/ops/empty_like.h"

namespace ampd::amp {
namespace {

// The number of warm-up steps that LibTorch recommends before a recording.
constexpr int kWarmUpSteps = 3;

bool Fits(const at::Tensor& given, const at::Tensor& input) {
  return given.defined() == input.defined() &&
         (!given.defined() || (given.scalar_type() == input.scalar_type() && given.sizes() == input.sizes()));
}

at::Tensor InputFor(const at::Tensor& given, c10::Device device) {
  return given.defined() ? at::empty_like(given, given.options().device(device).pinned_memory(false)) : at::Tensor();
}

bool Fits(const TensorMap& given, const TensorMap& input) {
  return std::equal(given.begin(), given.end(), input.begin(), input.end(), [](const auto& one, const auto& other) {
    return one.first == other.first && Fits(one.second, other.second);
  });
}

// The number of samples in one micro-batch.
int64_t NumSamples(const std::vector<Batch>& micro_batches) { return amp::NumSamples(micro_batches.at(0)); }

}  // namespace

CapturedStep::CapturedStep(const StepGraphs& graphs, StepKernels& kernels, c10::Device device)
    : graphs_(graphs),
      kernels_(kernels),
      device_(device),
      graph_(graphs.make(device)),
      copies_(graphs.make_copies(device)) {}

void CapturedStep::Forget() {
  num_warm_ups_ = 0;
  ReleaseGraph();
}

bool CapturedStep::MakeRoomFor(const std::vector<Batch>& micro_batches) {
  if (!captured_) {
    return false;
  }
  const StepGraph::Memory memory = graph_->memory();
  if (NumSamples(micro_batches) > NumSamples(inputs_) || memory.free_bytes < memory.own_bytes + memory.own_bytes / 4) {
    return ReleaseGraph();
  }
  return false;
}

bool CapturedStep::ReleaseGraph() {
  if (!std::exchange(captured_, false)) {
    return false;
  }
  graph_.reset();  // Frees its memory before another graph is made.
  graph_ = graphs_.make(device_);
  return true;
}

void CapturedStep::Run(const std::vector<Batch>& micro_batches, const std::vector<uint64_t>& seeds, Step step) {
  if (graph_ == nullptr || (captured_ && !Fits(micro_batches))) {
    MakeRoomFor(micro_batches);
    return step(micro_batches, nullptr);
  }
  if (!Fits(micro_batches)) {
    MakeInputs(micro_batches);
  }
  CopyIn(micro_batches);
  if (!captured_ && num_warm_ups_ < kWarmUpSteps) {
    ++num_warm_ups_;
    return graph_->WarmUp([&] { step(inputs_, nullptr); });
  }
  if (!captured_) {
    Capture(seeds.size(), step);
  }
  if (captured_) {
    graph_->Replay(seeds);
  } else {
    step(micro_batches, nullptr);
  }
}

bool CapturedStep::Fits(const std::vector<Batch>& micro_batches) const {
  return std::equal(micro_batches.begin(), micro_batches.end(), inputs_.begin(), inputs_.end(),
                    [](const Batch& given, const Batch& input) {
                      return amp::Fits(given.images, input.images) && amp::Fits(given.labels, input.labels) &&
                             amp::Fits(given.others, input.others) && amp::Fits(given.share, input.share);
                    });
}

void CapturedStep::MakeInputs(const std::vector<Batch>& micro_batches) {
  inputs_.clear();
  for (const Batch& given : micro_batches) {
    Batch& input = inputs_.emplace_back();
    input.images = InputFor(given.images, device_);
    input.labels = InputFor(given.labels, device_);
    input.share = InputFor(given.share, device_);
    for (const auto& [name, tensor] : given.others) {
      input.others[name] = InputFor(tensor, device_);
    }
  }
  num_warm_ups_ = 0;
}

void CapturedStep::CopyIn(const std::vector<Batch>& micro_batches) {
  std::vector<TensorCopy> copies;
  const auto add = [&copies](const at::Tensor& given, const at::Tensor& input) {
    if (given.defined()) {
      copies.push_back({given, input});
    }
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    add(micro_batches[i].images, inputs_[i].images);
    add(micro_batches[i].labels, inputs_[i].labels);
    add(micro_batches[i].share, inputs_[i].share);
    for (const auto& [name, tensor] : micro_batches[i].others) {
      add(tensor, inputs_[i].others.at(name));
    }
  }
  copies_->Copy(copies);
}

void CapturedStep::Capture(size_t num_seeds, Step step) {
  kernels_.BeginRecording();
  failure_ = graph_->Capture(num_seeds, [&] { step(inputs_, graph_.get()); });
  kernels_.EndRecording();
  captured_ = failure_.empty();
  if (!captured_) {
    graph_.reset();
    copies_.reset();
    inputs_.clear();
  }
}

}  // namespace ampd::amp
