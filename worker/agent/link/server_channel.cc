#include "worker/agent/link/server_channel.h"

#include "base/grpc/channel.h"

namespace ampd::agent {
namespace {

constexpr int kKeepaliveMillis = 10'000;
constexpr int kKeepaliveTimeoutMillis = 5'000;
constexpr int kMaxMessageBytes = 64 << 20;

}  // namespace

std::shared_ptr<grpc::Channel> MakeServerChannel(const ServerConnection& server) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMillis);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMillis);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Despite its name, this argument is not a pause: it limits the time of one attempt to connect, including the
  // handshake.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 3'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  // Without this argument, channels with equal arguments would share a connection, and a long download would delay
  // reports.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  return OpenChannel(server, arguments);
}

}  // namespace ampd::agent
