#pragma once

namespace ampd {

// From now on, gRPC resolves the names of hosts as all other programs of this machine do, with getaddrinfo. Its own
// resolver asks the DNS for each name that /etc/hosts has without an IPv6 address, and waits three seconds where no DNS
// server answers. The environment variable GRPC_DNS_RESOLVER, if set, decides instead. REQUIRES: gRPC has not been used
// yet, and the program has no other threads that read its environment.
void ResolveNamesAsTheSystemDoes();

}  // namespace ampd
