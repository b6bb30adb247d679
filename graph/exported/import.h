#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/input_names.h"
#include "graph/graph.h"
#include "graph/heads.h"

namespace ampd::graph {

// A job's settings for an exported model.
struct ImportOptions {
  // The index of the program's output that the head takes; the index of the first one if the head takes several. Other
  // outputs are left out.
  int output = 0;
  std::optional<Head> head;  // If not set, HeadOf(the output's type) chooses it.
  // The index of the output that says over how many labels the loss is a mean; nothing if the model has no such output.
  // Only for the head kOwnLoss.
  std::optional<int> count_output = {};
  InputNames inputs;
  int64_t sequence_length = 0;  // Length of the training texts; 0: there are no texts.
};

// The graph of an exported program, without in-place ops. Its parameters are the trained tensors; everything else in
// the file becomes a buffer. Parameters and buffers have Python's names. Inputs and outputs are named like those of the
// built-in models: a single input is "images", or "input_ids" if it holds integers; several inputs keep their own
// names. The options may rename inputs. Outputs are named as the head expects, whatever their types.
//
// * If there are several inputs, an input named "images" or "input_ids" comes first in the graph.
// * A parameter becomes a buffer if it has no requires_grad, or if the outputs of the training program do not depend on
//   it, because training does not change it.
// * Tied parameters, which are stored in one place, all have the name of the first.
// * A norm's count of its batches (BatchNorm's num_batches_tracked) becomes a batch counter, not a buffer. Any other
//   count that nothing reads is left out, and so is a buffer that the training program does not have.
// * The symbol of the first input's first size is the batch size. The only other symbol is the length of inputs (B,
//   positions), which is `sequence_length` (0: the job has none).
// * A cast to the dtype that a tensor already has is left out, unless the model's bfloat16 twin lists it (NamedDtype):
//   with kMeant the cast keeps fp32, and with kFollows it is marked (Node::follows_dtype).
// * All tensors are on the device on which the job runs: devices, layouts and assertions on them are left out.
//
// INVALID_ARGUMENT (reason BAD_EXPORT; UNKNOWN_OP for an op that models may not use) naming the op, its module and the
// line of the model's source.
absl::StatusOr<Graph> ImportProgram(const ExportedModel& model, const ExportedProgram& program,
                                    const ImportOptions& options = {});

// The evaluation program: the file's own, or the training program without dropout and with norms that use their running
// statistics, if they have any (EvalProgram). The file's own program computes what the model computes after
// model.eval(), also where this is random or uses the statistics of the batch (OwnEvalProgram). Returns
// INVALID_ARGUMENT (reason BAD_EXPORT) if the file has no evaluation program and the training program draws random
// numbers even without dropout.
absl::StatusOr<Graph> ImportEvalProgram(const ExportedModel& model, const ImportOptions& options = {});

// Returns the error messages that ImportProgram would give for the ops of the program that models may not use. Each
// message occurs once. For tools that show a file to people.
std::vector<std::string> RefusedOps(const ExportedProgram& program);

// Whether the program was exported in evaluation mode: it has dropout or norms with running statistics, and all of
// these are in evaluation mode.
bool IsEvalMode(const Graph& graph);

// The programs that a job trains and evaluates.
struct ImportedPrograms {
  Graph train;
  Graph eval;                         // Has the same state as `train`.
  std::vector<std::string> warnings;  // What the user may not have intended.
};

// Imports the training and the evaluation program. Returns the errors of ImportProgram and ImportEvalProgram. Returns
// INVALID_ARGUMENT with the reason SPEC_ERROR for an output that the head does not take, for an input "labels" with a
// head other than kOwnLoss, and for a model without trained parameters. With kGan it also refuses a trained parameter
// that does not affect the loss of the network (generator or discriminator) to which it belongs.
absl::StatusOr<ImportedPrograms> ImportPrograms(const ExportedModel& model, const ImportOptions& options);

}  // namespace ampd::graph
