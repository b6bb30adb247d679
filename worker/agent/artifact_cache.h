#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/io/file.h"
#include "worker/agent/artifact_source.h"

namespace ampd::agent {

// The artifacts that this worker has, each a file "<folder>/<sha256>", and a thread that gets those that are wanted and
// not here, one after the other. One that is here is READY at once, or when the next piece of another has come; one
// that the server does not give now is asked for again later and holds no other up. What has come of one is in
// "<sha256>.partial" and is gone on with, also after a restart of the agent. A file has its name once its content was
// compared with it.
//
// When there are more than `max_bytes`, those used longest ago go, and all of them when the disk is full; one that is
// wanted never does. Thread-safe.
class ArtifactCache {
 public:
  struct Options {
    std::string folder;  // made when something is wanted
    int64_t max_bytes = int64_t{20} << 30;
    ArtifactSource* source = nullptr;
    const Clock* clock = nullptr;
    absl::Duration first_pause = absl::Milliseconds(100);  // before a server that is out of reach is asked again
    absl::Duration last_pause = absl::Seconds(5);
    std::function<void(const std::string&)> log;                                   // one line; from any thread
    std::function<absl::Status(int fd, std::string_view bytes)> write = WriteAll;  // into a file of the folder
  };
  explicit ArtifactCache(Options options);
  void Start();
  // Ends what is under way; it is gone on with by the next agent.
  ~ArtifactCache();

  struct Look {
    enum State { PENDING, READY, FAILED } state = PENDING;
    // Of FAILED. The server has no such artifact: NOT_FOUND, INVALID_ARGUMENT, or DATA_LOSS (another content than was
    // asked for). This host can't keep it: RESOURCE_EXHAUSTED where its disk is full, INTERNAL.
    absl::Status error;
  };
  // All that attempts of this worker name now; what came of others is forgotten, and their files may go. Quick.
  void SetWanted(std::set<std::string> sha256s);
  // PENDING until it is there or can't be got. REQUIRES: it is wanted. Quick.
  Look Find(const std::string& sha256) const;
  const std::string& folder() const { return options_.folder; }
  // Readable when something has become READY or FAILED. The caller reads eight bytes from it.
  int wake_fd() const { return wake_.get(); }

 private:
  struct Wanted {
    Look look;
    bool is_looked_for = false;  // its file, here
    absl::Duration ask_at;       // the server, while PENDING; since boot
    absl::Duration pause;        // before it is asked once more; 0: it was not yet
  };

  void Work();
  // Until there is something to do; false once it is closed.
  bool AwaitWork();
  // Makes those READY whose files are here, of those that were not looked for yet.
  void LookForFiles();
  std::string NextToLookFor();
  // The PENDING one that is not here and that the server is to be asked for first, if it is time to; empty: none.
  std::string NextToGet();
  void Know(const std::string& sha256, absl::Status got);
  void AskLater(const std::string& sha256, const absl::Status& got);
  bool HasNewsOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsWanted(const std::string& sha256) const;
  // UNAVAILABLE when it is worth asking again, CANCELLED when it was not wanted any more.
  absl::Status Get(const std::string& sha256);
  absl::Status GetOnce(const std::string& sha256);
  absl::Status Append(const std::string& sha256);
  absl::Status Verify(const std::string& sha256);
  // Until no more are left, of those that are not wanted.
  void Evict(int64_t max_bytes);
  std::string PathOf(const std::string& sha256) const { return options_.folder + "/" + sha256; }

  const Options options_;
  const UniqueFd wake_;
  std::thread thread_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Wanted> wanted_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::agent
