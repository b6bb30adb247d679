#pragma once

namespace ampd {

// From now on, writes the messages of gRPC and protobuf to ampd's log (base/log.h), with the fields `source` ("grpc" or
// "protobuf") and `place` (file and line). GRPC_VERBOSITY selects which messages gRPC writes (default: errors).
void LogLinesOfGrpcAndProtobuf();

}  // namespace ampd
