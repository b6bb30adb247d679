#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "worker/amp/engine.h"

// A classification task that a small network learns within a hundred steps, for tests of the engine.
namespace ampd::amp {

inline constexpr int kImageSize = 8;
inline constexpr int kClasses = 4;

// A LeNet that can learn the classes of MakeBatch. For each element of `widths` it has one convolution with that number
// of channels.
graph::Graph SmallLenet(const std::vector<int>& widths);

// A batch of `size` images with their classes. An image of class c is noise with a bright row c. The images are a
// tensor (size, 1, kImageSize, kImageSize).
Batch MakeBatch(uint64_t seed, int64_t size);

// Returns the bytes of a contiguous tensor.
std::string Bytes(const at::Tensor& tensor);

// Returns one digest over every bit of the engine's training state.
std::string DigestOf(const Engine& engine);

}  // namespace ampd::amp
