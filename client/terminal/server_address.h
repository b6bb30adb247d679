#pragma once

#include <string>

#include "absl/status/status.h"

// The addresses of servers that users type: HOST:PORT, [IPV6]:PORT, and unix:/PATH of a socket.
namespace ampd::client {

// Returns whether the text is the address of a server: a host, a colon and a port from 1 to 65535; or "unix:" and the
// absolute path of a socket without blanks. An IPv6 address is a host only in brackets: [::1].
bool IsServerAddress(const std::string& text);

// Returns why the text is not the address of a server. The result continues a sentence that begins with the text: "has
// no port; write HOST:PORT, such as lab:7070". REQUIRES: !IsServerAddress(text).
std::string WhyNoAddress(const std::string& text);

// Returns INVALID_ARGUMENT if the address is that of a socket, and a file of another kind is in its place. Returns OK
// for all other addresses: a socket that does not exist yet may be made later. `subject` names the address in the
// error: "the address 'unix:/tmp' from --address".
absl::Status CheckIsNoOtherFile(const std::string& address, const std::string& subject);

}  // namespace ampd::client
