#include "data/npy.h"
#include "tests/fuzz/arrays.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto array = ampd::data::ReadNpy(ampd::fuzz::WriteInput(data, size), 0);
  ampd::fuzz::Judge(array.status());
  if (array.ok()) {
    ampd::fuzz::RequireWhole(*array);
  }
  return 0;
}
