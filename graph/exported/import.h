#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/exported/exported_program.h"
#include "graph/graph.h"
#include "graph/heads.h"

namespace ampd::graph {

// Names of a program's inputs, and what the graph calls them instead.
using InputNames = std::map<std::string, std::string>;

// What a job says of a model that was exported.
struct ImportOptions {
  // Of the program's outputs, the first one that the head takes. The others are left out.
  int output = 0;
  std::optional<Head> head;  // nothing: one with a cross entropy, told by the output's type
  // With kOwnLoss, the program's output that says how many labels the loss is the mean of; nothing: none does.
  std::optional<int> count_output = {};
  InputNames inputs;
  int64_t sequence_length = 0;  // of the texts that it trains on; 0: they are none
};

// The graph of an exported program, without ops that write in place. What it trains are its parameters, and everything
// else that the file holds are its buffers, by Python's names. Inputs and outputs have the zoo's names: the only input
// is "images", or "input_ids" where it is of whole numbers (of several, each keeps the name that it has there), unless
// the options call it otherwise; the outputs are called as the head takes them, whatever their types.
//
// * Of several inputs, that with a name of the zoo's is the graph's first.
// * A parameter without requires_grad, or that the outputs of the training program do not depend on, is a buffer:
//   training leaves it as it is.
// * Of tied parameters, which lie in one place, the first gives the name to all.
// * A norm's count of its batches (BatchNorm's num_batches_tracked) is no buffer but a batch counter. Any other count
//   that nothing reads is left out, and so is a buffer that the training program does not have.
// * The symbol of the first input's first size is the batch size; there is no other but the length of inputs (B,
//   positions), which is `sequence_length` (0: the job has none).
// * A cast to the dtype that is there is left out, unless the model's bfloat16 twin tells that it is another's: one
// that
//   is meant keeps fp32, and what follows says so (Node::follows_dtype).
// * Every tensor lies on the device of the run: devices, layouts and what asserts them are left out.
//
// INVALID_ARGUMENT (reason BAD_EXPORT; UNKNOWN_OP for an op that models may not use) naming the op, its module and the
// line of the model's source.
absl::StatusOr<Graph> ImportProgram(const ExportedModel& model, const ExportedProgram& program,
                                    const ImportOptions& options = {});

// The program for evaluation: the file's own, or the training program with its dropout gone and its norms on their
// running statistics, where they have any. INVALID_ARGUMENT (reason BAD_EXPORT) where that is not enough, because the
// training program is random by other means and the file has no program of its own.
absl::StatusOr<Graph> ImportEvalProgram(const ExportedModel& model, const ImportOptions& options = {});

// What the import makes of a node.
enum class NodeFate {
  kRuns,
  kSkipped,  // it computes or asserts sizes, or counts batches for nobody
  kPassed,   // its result is its first argument, or its results are those of that list
  kRefused,  // models may not use it
};

// `counters`: CountersOf(program) (graph/exported/exported_ops.h).
NodeFate FateOf(const ExportedProgram& program, const std::set<std::string>& counters, const ExportedNode& node);

// What the graph calls one of a program's own inputs. REQUIRES: it is of the kind kUser.
std::string InputNameOf(const ExportedProgram& program, const ExportedInput& input, const InputNames& inputs);

// What ImportProgram says of ops that models may not use, of all of a program's and of each once: for people who look
// at a file.
std::vector<std::string> RefusedOps(const ExportedProgram& program);

// Whether the program was exported in evaluation mode: it has dropout, or norms with running statistics, and none of
// them trains.
bool IsEvalMode(const Graph& graph);

// A model as a job trains and evaluates it.
struct ImportedPrograms {
  Graph train;
  Graph eval;                         // with the same state
  std::vector<std::string> warnings;  // of what may not be meant
};

// Both programs. INVALID_ARGUMENT as ImportProgram and ImportEvalProgram, or with the reason SPEC_ERROR for an output
// that the head does not take, for an input "labels" with another head than kOwnLoss, for a model in which there is
// nothing to train, and with kGan for a trained parameter that its own network's loss does not lead to.
absl::StatusOr<ImportedPrograms> ImportPrograms(const ExportedModel& model, const ImportOptions& options);

}  // namespace ampd::graph
