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

// A LeNet that can learn the classes below. It has one convolution for each element of `widths`, with that many
// channels.
graph::Graph SmallLenet(const std::vector<int>& widths);

// Class c has a bright row c, plus noise. Images are (size, 1, kImageSize, kImageSize).
Batch MakeBatch(uint64_t seed, int64_t size);

// The bytes of a contiguous tensor.
std::string Bytes(const at::Tensor& tensor);

// One digest over every bit of the training state.
std::string DigestOf(const Engine& engine);

}  // namespace ampd::amp
