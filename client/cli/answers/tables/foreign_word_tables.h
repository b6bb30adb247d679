#pragma once

#include <span>

#include "client/cli/answers/tables/foreign_answers.h"
#include "client/cli/answers/tables/missing_things.h"

// The tables of foreign words, which are commands of other programs that users try in ampctl (foreign_words.h). There
// is one table per origin, such as kubectl.
namespace ampd::client {

// Words that users of another program type, and the answer to them.
struct ForeignRow {
  const char* words;  // a|b stands for either word: "scontrol hold|suspend"
  ForeignAnswer answer;
};

std::span<const ForeignRow> KubectlRows();
// Slurm, PBS and LSF.
std::span<const ForeignRow> SlurmRows();
std::span<const ForeignRow> GhRows();
// Verbs that many programs have.
std::span<const ForeignRow> CommonVerbRows();
// docker, Ray, Determined, SkyPilot, MLflow and the like.
std::span<const ForeignRow> ToolRows();
// Words in ampctl's own groups, such as "job stop".
std::span<const ForeignRow> GroupRows();
// Rows for a command group that is followed by a name in place of a command, such as "checkpoint ID".
std::span<const ForeignRow> NameRows();

}  // namespace ampd::client
