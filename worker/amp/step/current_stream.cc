#include "worker/amp/step/current_stream.h"

#include "c10/core/Stream.h"
#include "c10/core/impl/VirtualGuardImpl.h"

namespace ampd::amp {

void* CurrentStream(c10::Device device) {
  return device.is_cuda() ? c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle() : nullptr;
}

}  // namespace ampd::amp
