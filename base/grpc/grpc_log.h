#pragma once

namespace ampd {

// Redirects the messages of gRPC and protobuf to our log (base/log.h), with the fields `source` ("grpc" or "protobuf")
// and `place` (file and line). GRPC_VERBOSITY selects which messages gRPC writes (default: errors).
void LogLinesOfGrpcAndProtobuf();

}  // namespace ampd
