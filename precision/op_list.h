#pragma once

#include <string_view>

#include "graph/op_table.h"

namespace ampd::precision {

// The framework from which a policy takes its initial classification of ops: which of them compute in a lower format,
// in fp32, and so on.
enum class OpList {
  kAmpd,       // ampd's own, in the op table (graph/op_table.h).
  kTorchCuda,  // torch.autocast("cuda") of torch 2.11.
  kTorchCpu,   // torch.autocast("cpu") of torch 2.11, which keeps softmax, norms and sums in their input's format.
  kApexO1,     // Apex O1, by the functions that apex.amp patches.
  kKeras,      // Keras: every layer casts its inputs; losses and the inside of norms are fp32.
  kModelCast,  // A model cast as a whole: each op runs in its input's format, losses in fp32.
  kMegatron,   // Like kModelCast, but softmaxes are fp32.
};

std::string_view OpListName(OpList list);

// The class that the list gives an op. Sources of the lists: aten/src/ATen/autocast_mode.h (a test compares each op
// with the installed PyTorch), apex/amp/lists of the last release with apex.amp, and keras/src/layers.
graph::OpClass ClassIn(OpList list, const graph::OpRow& row);

// Whether the list has an entry for an op that is decomposed into others (graph::Node::part_of). If so, all parts of
// the op use that entry; otherwise each part uses the entry of its own op.
bool ListsWhole(OpList list, const graph::OpRow& row);

// Whether an activation is cast again for each op that reads it. torch.autocast and Apex do so: they cache only casts
// of parameters. The gradients from all readers are then summed in the activation's own format; with one shared cast
// they would be summed in the format of the cast. Casting again costs a copy for each op that saves its input.
bool CastsAtEachUse(OpList list);

}  // namespace ampd::precision
