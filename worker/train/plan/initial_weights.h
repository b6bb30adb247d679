#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/exported/exported_program.h"
#include "worker/executor/executor.h"

namespace ampd::train {

// Summary of what a model loaded from a file of weights.
struct LoadedWeights {
  int64_t num_tensors = 0;
  int64_t num_bytes = 0;             // Size of the loaded tensors in the file.
  std::vector<std::string> anew;     // Tensors that kept the model's own values, as the spec requests.
  std::vector<std::string> ignored;  // Tensors that PyTorch or transformers saved and the model does not need.
};

// Replaces the tensors of `model` with those of a safetensors file that have the same names and shapes. Integers
// replace integers, and floating-point numbers of any format replace floating-point numbers; all are converted to the
// model's dtype.
//
// The file must have exactly the model's tensors, with these exceptions:
//
// * Names that match a glob of `initialize_anew` are left out on both sides: the model keeps its own values.
// * Either side may lack counters of batches ("num_batches_tracked").
// * The model may lack buffers that transformers recomputes ("attn.bias", "attn.masked_bias", "position_ids").
// * If all names of the model begin with "transformer." and none of the file's do, as in the published GPT-2, the
//   prefix is added to the file's names.
// * A "lm_head.weight" that repeats the embedding is ignored if the head is tied to it.
// * The file may lack the tensors in `names.left_out`, because Python does not save them. It may have a tied parameter
//   under any of the names that `names` lists for the parameter, or under several of them with the same content.
//
// Returns DATA_LOSS, in one line, if the bytes are not a safetensors file, if a glob matches nothing on either side,
// or if tensors do not fit. A tensor does not fit if it is missing, extra, or of another shape or kind of dtype. The
// message has the number of such tensors and their first names; the trainer's log lists up to 100. After an error
// `model` may be partly changed.
absl::StatusOr<LoadedWeights> LoadInitialWeights(std::string_view bytes,
                                                 const std::vector<std::string>& initialize_anew,
                                                 executor::TensorMap& model, const graph::SavedNames& names = {});

// A one-line description. `source`: where the weights come from.
std::string Describe(const LoadedWeights& loaded, const std::string& source);

}  // namespace ampd::train
