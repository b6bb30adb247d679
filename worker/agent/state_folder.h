#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/io/file.h"
#include "base/random.h"

namespace ampd::agent {

// Creates `folder` if it does not exist, and closes it to other users. Fails if other users could have written to it
// (base/io/private_folder.h describes this check and `depth`). Then checks that the folder is writable, with a test
// file. Returns lines for the log about what was changed. An error is one line that names the folder and the cause; it
// calls the folder `what`.
absl::StatusOr<std::vector<std::string>> PrepareFolder(const std::string& folder, const std::string& what, int depth);

// Returns the agent's place for its reports: the host's name and the path of the state folder without symbolic links.
// Cut to the maximum length in a report; bytes that are not UTF-8 are replaced. If two agents use the same worker name,
// the message that refuses the second agent shows this text.
std::string PlaceOf(const std::string& host, const std::string& state_folder);

// The folder that holds one agent's state. No other agent can open it while this object lives. Thread-compatible.
class StateFolder {
 public:
  // Creates the folder if it does not exist. If another agent has it open, waits up to 3 seconds for that agent's end;
  // then returns FAILED_PRECONDITION.
  static absl::StatusOr<StateFolder> Open(const std::string& folder, RandomSource& random);

  // The agent's id, created with the folder and constant from then on. The id distinguishes this agent from other
  // agents with the same worker name. It is a secret between the agent and the server, in a file that only the agent's
  // user may read.
  const std::string& agent_id() const { return agent_id_; }

  // Lines for the log about what was changed in the folder, and about a wait for another agent.
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  UniqueFd lock_;
  std::string agent_id_;
  std::vector<std::string> lines_;
};

}  // namespace ampd::agent
