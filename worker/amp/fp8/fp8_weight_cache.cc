#include "worker/amp/fp8/fp8_weight_cache.h"

#include <algorithm>

#include "c10/util/Exception.h"

namespace ampd::amp {
namespace {

const void* MemoryOf(const at::Tensor& tensor) { return tensor.storage().data(); }

// Whether both tensors have the same elements at the same addresses.
bool IsSameView(const at::Tensor& a, const at::Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

}  // namespace

void Fp8WeightCache::SetParameters(const std::vector<at::Tensor>& parameters) {
  parameters_.clear();
  for (const at::Tensor& parameter : parameters) {
    parameters_.insert(MemoryOf(parameter));
  }
}

void Fp8WeightCache::Open() {
  TORCH_CHECK(!is_open_, "the FP8 weights of a step are kept already");
  is_open_ = true;
}

void Fp8WeightCache::Close() {
  is_open_ = false;
  entries_.clear();
}

Fp8WeightCache::Entry* Fp8WeightCache::Find(size_t layer, const at::Tensor& weight) {
  if (!is_open_ || !parameters_.contains(MemoryOf(weight))) {
    return nullptr;
  }
  entries_.resize(std::max(entries_.size(), layer + 1));
  std::vector<Entry>& of_layer = entries_[layer];
  const auto found = std::find_if(of_layer.begin(), of_layer.end(),
                                  [&](const Entry& entry) { return IsSameView(entry.weight, weight); });
  const auto version = static_cast<uint32_t>(weight._version());
  if (found != of_layer.end() && found->version == version) {
    return &*found;
  }
  Entry& entry = found == of_layer.end() ? of_layer.emplace_back() : *found;
  entry = {.weight = weight.detach(), .version = version, .forms = {}};
  return &entry;
}

}  // namespace ampd::amp
