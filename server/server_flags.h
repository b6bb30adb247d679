#pragma once

#include <string>

#include "base/flags/flag_set.h"
#include "server/server_config.h"

namespace ampd::server {

// Addresses as the operator wrote them. Other flags decide whether addresses other than loopback are allowed.
struct ServerAddresses {
  std::string listen;
  std::string metrics_listen = "127.0.0.1:7071";
};

// Declares the flags of ampd-server, which write to `config` and `addresses`. Both must outlive `flags`.
void AddServerFlags(FlagSet* flags, ServerConfig* config, ServerAddresses* addresses);

}  // namespace ampd::server
