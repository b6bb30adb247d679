#pragma once

#include <span>

#include "client/cli/tables/foreign_answers.h"
#include "client/cli/tables/missing_things.h"

// The tables of foreign words (foreign_words.h), one per origin.
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
// A name in place of a group's command: the first word is the group, and the second stands for the name.
std::span<const ForeignRow> NameRows();

}  // namespace ampd::client
