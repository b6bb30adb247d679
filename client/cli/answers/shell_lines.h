#pragma once

#include <string>
#include <vector>

namespace ampd::client {

// Returns a line for a shell that calls `call`, a command line of ampctl, in the way that the options of other programs
// in `words` ask for. Returns `call` itself if they ask for a single call at once. They may ask
// * to wait for other jobs: "ampctl job wait 5 && ampctl job submit -f x.yaml" for --dependency=afterok:5. The option
//   must be written with a `=`;
// * for one job for each number: "for i in $(seq 0 9); do ampctl job submit ... $i; done" for --array=0-9, if `call`
//   contains "$i";
// * for one job for each file, as kubectl does for -f FOLDER/ and for several -f.
std::string InShell(const std::string& call, const std::vector<std::string>& words);

// Returns the numbers of Slurm's --array as words of a shell: "1 3 $(seq 5 7)" for "1,3,5-7%2". Empty if the text is no
// list of numbers.
std::string NumbersOfArray(const std::string& text);

}  // namespace ampd::client
