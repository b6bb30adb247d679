#include "base/grpc/name_resolution.h"

#include <cstdlib>

namespace ampd {

void ResolveNamesAsTheSystemDoes() { setenv("GRPC_DNS_RESOLVER", "native", /*replace=*/0); }

}  // namespace ampd
