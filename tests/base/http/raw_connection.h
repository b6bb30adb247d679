#pragma once

#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "base/io/file.h"
#include "base/io/listen_address.h"

namespace ampd {

// A TCP connection on which a test sends and reads arbitrary bytes. Single-threaded.
class RawConnection {
 public:
  // Connects to the address. The test fails if no process listens there.
  explicit RawConnection(const ListenAddress& address);

  void Send(std::string_view bytes);
  // Returns the text that the peer sends until it closes the connection or, if `end` is not empty, until the text ends
  // with `end`. If `timeout` passes first, the test fails and the text read so far is returned.
  std::string Read(std::string_view end = "", absl::Duration timeout = absl::Seconds(30));
  // Returns whether the peer closes the connection before `timeout`. Discards what the peer sends.
  bool IsClosed(absl::Duration timeout = absl::Seconds(30));
  void Close() { fd_.Reset(); }

 private:
  UniqueFd fd_;
};

}  // namespace ampd
