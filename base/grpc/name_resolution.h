#pragma once

namespace ampd {

// From now on, gRPC resolves the names of hosts as all other programs of this machine do, with getaddrinfo. gRPC's own
// resolver asks a DNS server even for a name in /etc/hosts, if the file has only an IPv4 address for it. If no DNS
// server answers, that takes three seconds. The environment variable GRPC_DNS_RESOLVER, if set, decides instead.
// REQUIRES: gRPC has not been used yet, and the program has no other threads that read its environment.
void ResolveNamesAsTheSystemDoes();

}  // namespace ampd
