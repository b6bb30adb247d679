#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/io/file.h"
#include "base/random.h"

namespace ampd::agent {

// Creates `folder` if it does not exist, closes it to other users, refuses it if they could have written to it
// (base/io/private_folder.h, with `depth`), and writes and deletes a file in it to check that it is writable. Returns
// lines for the log. An error is one line that names the folder and the cause; `what` is the folder's name in that
// line.
absl::StatusOr<std::vector<std::string>> PrepareFolder(const std::string& folder, const std::string& what, int depth);

// The folder that holds one agent's state. No other agent can open it while this object lives. Thread-compatible.
class StateFolder {
 public:
  // Creates the folder if it does not exist. FAILED_PRECONDITION while another agent has it open.
  static absl::StatusOr<StateFolder> Open(const std::string& folder, RandomSource& random);

  // The agent's id, created with the folder and constant from then on. It distinguishes this agent from other agents of
  // the same name. It is a secret between the agent and the server, in a file that only the agent's user may read.
  const std::string& agent_id() const { return agent_id_; }

  // Lines for the log about what was changed in the folder.
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  UniqueFd lock_;
  std::string agent_id_;
  std::vector<std::string> lines_;
};

}  // namespace ampd::agent
