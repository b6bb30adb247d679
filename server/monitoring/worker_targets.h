#pragma once

#include <string>
#include <vector>

#include "ampd/v1/worker.pb.h"

namespace ampd::server {

// Lists the workers that serve metrics, in the JSON form of Prometheus's service discovery over HTTP and by files:
//
//   [{"targets":["10.0.0.7:7072"],"labels":{"worker":"gpu1","__scheme__":"https"}}]
//
// If a worker listens on all addresses of its host, its target is its own name, because workers are named after their
// hosts unless --name says otherwise. The scheme is http for a loopback address, because only there a worker may listen
// without TLS. A lost worker stays in the list, so that Prometheus shows it as down.
std::string WorkerTargets(const std::vector<v1::Worker>& workers);

}  // namespace ampd::server
