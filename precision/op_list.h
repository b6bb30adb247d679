#pragma once

#include <string_view>

#include "graph/op_table.h"

namespace ampd::precision {

// Whose division of the ops a policy begins with.
enum class OpList {
  kAmpd,       // the op table's own
  kTorchCuda,  // torch.autocast("cuda") of torch 2.11
  kTorchCpu,   // torch.autocast("cpu") of torch 2.11, which leaves softmax, norms and sums in their input's format
  kApexO1,     // apex.amp's patched functions
  kKeras,      // every layer casts its inputs; losses and the inside of norms are fp32
  kModelCast,  // a model that was cast as a whole: everything runs in the format it is given, losses in fp32
  kMegatron,   // the same with softmaxes in fp32
};

std::string_view OpListName(OpList list);

// How the list treats an op. Sources: aten/src/ATen/autocast_mode.h (checked op by op against the wheel),
// apex/amp/lists of the last release with apex.amp, keras/src/layers.
graph::OpClass ClassIn(OpList list, const graph::OpRow& row);

// Whether the list has an op that is taken apart into others (graph::Node::part_of), so that all its parts are treated
// as the list says of it; otherwise each part is treated as itself.
bool ListsWhole(OpList list, const graph::OpRow& row);

// Whether an activation is cast anew for each op that reads it, as torch.autocast and Apex do, which remember the casts
// of parameters alone. Then its gradients are summed in its own format; those of a cast that ops share, in the cast's.
// It costs a copy for each op that keeps its input.
bool CastsAtEachUse(OpList list);

}  // namespace ampd::precision
