#pragma once

#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/bounded_queue.h"
#include "worker/agent/files/file_uplink.h"

namespace ampd::agent {

// Opens the file that a request names and returns a function that reads it piece by piece (FileUplink::NextPiece). The
// first piece names the transfer. A file that can't be read gives a piece with the failure. Reads only regular files
// below `root`, and follows no symbolic link.
FileUplink::NextPiece PiecesOf(const std::string& root, const v1::FileRequest& request);

// Sends the files of checkpoints that the server requests, a few at a time, on threads of its own. The server repeats a
// request in its directives until it receives the file; each transfer is sent once, unless its call failed. Send and
// Stop: owner is the agent's loop.
class FileSender {
 public:
  struct Options {
    std::string root;  // the checkpoint root
    FileUplink* uplink = nullptr;
    std::function<void(const std::string&)> log;  // takes one line; called from any thread
  };
  explicit FileSender(Options options);
  ~FileSender() { Stop(); }

  // Begins to send the files of `requests` that are not being sent yet; `requests` are all of a directive. If too many
  // files wait, the rest is left to a later directive.
  void Send(const std::vector<v1::FileRequest>& requests);
  // Ends all transfers and waits for the threads.
  void Stop();

 private:
  void Run();

  const Options options_;
  BoundedQueue<v1::FileRequest> waiting_;
  absl::Mutex mutex_;
  std::set<std::string> accepted_ ABSL_GUARDED_BY(mutex_);  // transfers of the last directive that were begun
  std::vector<std::thread> threads_;
};

}  // namespace ampd::agent
