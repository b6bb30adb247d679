#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/exported/exported_program.h"
#include "worker/executor/executor.h"

namespace ampd::train {

// What a file of weights gave to a model.
struct LoadedWeights {
  int64_t num_tensors = 0;
  int64_t num_bytes = 0;             // of their content in the file
  std::vector<std::string> anew;     // of the model: not taken, as was asked
  std::vector<std::string> ignored;  // of the file: what PyTorch and transformers save and this model does not need
};

// Replaces the tensors of `model` by those of a safetensors file with the same names and shapes, whole numbers by whole
// numbers and floating-point numbers by floating-point numbers of any format, converted to the model's.
//
// Names that match a glob of `initialize_anew` are left out on both sides: the model keeps what it has there. Beside
// that the file must have everything that the model has and nothing else, but for counters of batches
// ("num_batches_tracked"), which either side may lack, and buffers that transformers computes anew ("attn.bias",
// "attn.masked_bias", "position_ids"), which the model may lack. A file whose names all lack the "transformer." with
// which all of the model's begin, as the published GPT-2's, is taken as if they had it; a "lm_head.weight" that is the
// embedding once more is not needed where the head is tied to it. Of `names`, the file may lack what is left out, and
// may have a tied parameter by any of its names, or by several with the same content.
//
// DATA_LOSS, in one line, when the bytes are no such file, or with the number and the first names of what is missing,
// of another shape, of another kind of dtype, or extra, and for a glob that matches nothing on either side. What is
// wrong goes to the trainer's log in full, up to 100 names. `model` may be changed in part then.
absl::StatusOr<LoadedWeights> LoadInitialWeights(std::string_view bytes,
                                                 const std::vector<std::string>& initialize_anew,
                                                 executor::TensorMap& model, const graph::SavedNames& names = {});

// One line for people. `source`: what they are of.
std::string Describe(const LoadedWeights& loaded, const std::string& source);

}  // namespace ampd::train
