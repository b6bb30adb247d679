#include "server/rpc/connection_limits.h"

#include <algorithm>
#include <cstddef>

#include "server/rpc/calls/call.h"

namespace ampd::server {
namespace {

constexpr size_t kMemoryQuotaBytes = 512 << 20;
constexpr int kMaxGrpcThreads = 64;
constexpr int kStreamWindowBytes = 1 << 20;
constexpr int kMillis = 1000;
// The size limit for the metadata of a call, as HTTP/2 counts it: names, values and 32 bytes for each pair. It suffices
// for a JWT of 8 KiB, the certificate that a proxy passes on, and the rest. If a call exceeds the limit, gRPC closes
// its connection with all streams. A proxy's connection also has the streams of other callers, so
// docker/haproxy/haproxy.cfg refuses such requests before they reach gRPC.
constexpr int kMaxMetadataBytes = 16 << 10;

}  // namespace

// Clients and agents ping every 20 s or slower. A connection without a call for 10 min is closed.
//
// Compressed messages are refused. gRPC inflates a message before it compares its size with the limit, so a compressed
// message of 255 KiB took 256 MiB of memory. The clients of this project do not compress.
//
// Streams per connection: gRPC does not refuse a stream beyond the limit. Instead the call waits, without notice, until
// another stream has ended. With the usual limit of 100, a dashboard that watches more than 100 jobs over one
// connection would stall.
//
// A stream buffers at most 1 MiB of unread data. gRPC's own window starts at 4 MiB and grows with the data that arrive
// within a round trip, so a server that is short of processor time would buffer tens of megabytes for its clients. With
// the fixed window, at most 1 MiB of the message that is being read arrives per round trip. With 50 ms per round trip,
// ampctl's uploads, in pieces of 1 MiB, reach 20 MB/s.
//
// Connections have no maximum age. gRPC 1.51 does not notify a service before it closes a connection, so a maximum age
// would cut off watches and Attach streams, which live as long as jobs do. They would resume without a gap, but each
// time ampctl would report a lost connection and each agent would log one. There would be no gain, because there is
// only one server and no load to balance.
//
// gRPC 1.51 counts only a part of its memory, so its quota alone does not keep the process below its limit when there
// are many calls. The quota for the messages that gRPC does count is at most half of the process's limit.
void SetConnectionLimits(grpc::ServerBuilder* builder, int64_t memory_limit_bytes) {
  builder->SetMaxReceiveMessageSize(kMaxWorkerMessageBytes);
  builder->SetMaxSendMessageSize(kMaxWorkerMessageBytes);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1000);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20 * kMillis);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10 * kMillis);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10 * kMillis);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 600 * kMillis);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5 * kMillis);
  grpc::ResourceQuota quota("ampd");
  quota.Resize(memory_limit_bytes == 0 ? kMemoryQuotaBytes
                                       : std::min(kMemoryQuotaBytes, static_cast<size_t>(memory_limit_bytes) / 2));
  quota.SetMaxThreads(kMaxGrpcThreads);
  builder->SetResourceQuota(quota);
}

}  // namespace ampd::server
