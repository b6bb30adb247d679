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
// first piece contains the id of the transfer. If the file can't be read, the function returns a piece with the
// failure. Reads only regular files below `root`, and follows no symbolic link.
FileUplink::NextPiece PiecesOf(const std::string& root, const v1::FileRequest& request);

// Sends the files of checkpoints that the server requests, a few at a time, on threads of its own. The server repeats a
// request in its directives until it has received the file. FileSender sends each transfer once, and again only if the
// call failed. Only the agent's loop calls Send and Stop.
class FileSender {
 public:
  struct Options {
    std::string root;  // the checkpoint root
    FileUplink* uplink = nullptr;
    std::function<void(const std::string&)> log;  // takes one line; called from any thread
  };
  explicit FileSender(Options options);
  ~FileSender() { Stop(); }

  // Starts to send the files of `requests`, except those that are being sent already. `requests`: all requests of a
  // directive. If too many files wait for a thread, the rest is left to a later directive.
  void Send(const std::vector<v1::FileRequest>& requests);
  // Ends all transfers and waits for the threads.
  void Stop();

 private:
  void Run();

  const Options options_;
  BoundedQueue<v1::FileRequest> waiting_;
  absl::Mutex mutex_;
  std::set<std::string> accepted_ ABSL_GUARDED_BY(mutex_);  // transfers of the last directive that were accepted
  std::vector<std::thread> threads_;
};

}  // namespace ampd::agent
