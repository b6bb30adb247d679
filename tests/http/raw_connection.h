#pragma once

#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "base/io/file.h"
#include "base/io/listen_address.h"

namespace ampd {

// A TCP connection on which a test sends and reads bytes as it likes. Single-threaded.
class RawConnection {
 public:
  // Connects; the test fails when nobody listens.
  explicit RawConnection(const ListenAddress& address);

  void Send(std::string_view bytes);
  // What comes until the peer closes, or until the text ends with `end` if that is not empty; what came so far when
  // `timeout` passes, which fails the test.
  std::string Read(std::string_view end = "", absl::Duration timeout = absl::Seconds(30));
  // Whether the peer has closed the connection before `timeout`. Passes over what it sends.
  bool IsClosed(absl::Duration timeout = absl::Seconds(30));
  void Close() { fd_.Reset(); }

 private:
  UniqueFd fd_;
};

}  // namespace ampd
