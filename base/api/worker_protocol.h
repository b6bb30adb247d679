#pragma once

#include <cstdint>

namespace ampd {

// The versions of the protocol between agents and servers (WorkerService of worker_service.proto) that this version of
// ampd speaks. The number grows when an agent or server of the previous version would misunderstand a message. A new
// field that may be ignored does not change the number. An agent that reports no number speaks version 1.
inline constexpr int32_t kOldestWorkerProtocol = 1;
inline constexpr int32_t kNewestWorkerProtocol = 1;

}  // namespace ampd
