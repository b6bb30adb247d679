#pragma once

#include <string_view>

#include "graph/op_table.h"

namespace ampd::precision {

// The source of a policy's initial classification of ops.
enum class OpList {
  kAmpd,       // The op table's own.
  kTorchCuda,  // torch.autocast("cuda") of torch 2.11.
  kTorchCpu,   // torch.autocast("cpu") of torch 2.11, which keeps softmax, norms and sums in their input's format.
  kApexO1,     // apex.amp's patched functions.
  kKeras,      // Every layer casts its inputs; losses and the inside of norms are fp32.
  kModelCast,  // A model cast as a whole: everything runs in its input's format, losses in fp32.
  kMegatron,   // Like kModelCast, but softmaxes are fp32.
};

std::string_view OpListName(OpList list);

// The list's class for an op. Sources: aten/src/ATen/autocast_mode.h (checked op by op against the wheel),
// apex/amp/lists of the last release with apex.amp, keras/src/layers.
graph::OpClass ClassIn(OpList list, const graph::OpRow& row);

// Whether the list has an entry for an op that is decomposed into others (graph::Node::part_of). All its parts then use
// that entry; otherwise each part uses its own.
bool ListsWhole(OpList list, const graph::OpRow& row);

// Whether an activation is cast again for each op that reads it, as in torch.autocast and Apex, which cache only casts
// of parameters. Then the activation's gradients are summed in its own format; with a shared cast they are summed in
// the cast's. It costs a copy for each op that saves its input.
bool CastsAtEachUse(OpList list);

}  // namespace ampd::precision
