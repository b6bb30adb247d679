#pragma once

#include <string>
#include <vector>

// Brings the options of other programs into one form before they are looked up.
namespace ampd::client {

// Returns the words with each option in the form `-x VALUE`, `--x VALUE` or `--x=VALUE`:
//   * A short option of kubectl, Slurm or gh that has its value attached is split: -nvision becomes -n vision.
//   * Options between a program and its command move behind the command: kubectl -n x get becomes kubectl get -n x.
//   * An option that asks for what happens without it anyway is dropped: --x=false, --dry-run=none.
// REQUIRES: `typed` is not empty. It begins with a program or with a command of one.
std::vector<std::string> PlainOptions(const std::vector<std::string>& typed);

}  // namespace ampd::client
