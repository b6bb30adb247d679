#pragma once

#include <cstdint>

// What pixels.inc is compiled to, once for each instruction set; PixelsFor asks before it gives one away.
namespace ampd::kernels {

void MapPixelsPortable(const uint8_t* in, int64_t count, float mean, float deviation, float* out);
void MapPixelsAvx2(const uint8_t* in, int64_t count, float mean, float deviation, float* out);
void MapPixelsAvx512(const uint8_t* in, int64_t count, float mean, float deviation, float* out);

}  // namespace ampd::kernels
