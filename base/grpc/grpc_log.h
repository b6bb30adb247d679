#pragma once

namespace ampd {

// From here on what gRPC and protobuf have to say is lines of our log (base/log.h), with the fields `source` ("grpc" or
// "protobuf") and `place` (file and line). Which lines of gRPC's there are is up to GRPC_VERBOSITY; without it, errors.
void LogLinesOfGrpcAndProtobuf();

}  // namespace ampd
