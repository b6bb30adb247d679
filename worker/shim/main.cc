// ampd-shim --folder FOLDER -- PROGRAM [ARGUMENT ...]
//
// The parent process of one trainer. The agent starts one shim for each trainer. See shim.h.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "worker/shim/shim.h"

int main(int argc, char** argv) {
  if (argc < 5 || std::strcmp(argv[1], "--folder") != 0 || std::strcmp(argv[3], "--") != 0) {
    std::fprintf(stderr, "usage: ampd-shim --folder FOLDER -- PROGRAM [ARGUMENT ...]\n");
    return 2;
  }
  // Close every file that the shim inherited from the agent.
  close_range(3, ~0u, 0);
  umask(0077);  // Only this user may read files that the shim or the trainer creates.
  ampd::shim::Shim::Options options;
  options.folder = argv[2];
  options.trainer.assign(argv + 4, argv + argc);
  options.clock = &ampd::SystemClock();
  const absl::Status status = ampd::shim::Shim(std::move(options)).Run();
  if (!status.ok()) {
    std::fprintf(stderr, "ampd-shim: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  return 0;
}
