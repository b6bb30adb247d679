#include "worker/kernels/cuda/amax.h"
#include "worker/kernels/cuda/fp8_kernels.h"
#include "worker/kernels/cuda/launch.h"
#include "worker/kernels/tensor_row.h"

// A thread block quantizes a tile of 128x128 numbers. Each thread holds 8x8 of them in registers. So it has eight
// adjacent FP8 codes of each of its rows and of each of its columns, and writes the matrix and its transpose in
// pieces of 8 bytes, without shared memory. A warp covers 64 rows of 32 columns. It reads 64 bytes of each row of
// 16-bit numbers, and writes 32 bytes of each row and 64 bytes of each transposed row.
namespace ampd::kernels {
namespace {

constexpr int kSide = 8;
constexpr int kTile = static_cast<int>(kFp8Block);
constexpr int kWarpLanes = 32;
constexpr int kBlocksAtOnce = 2;  // Per multiprocessor: one computes while the other waits for memory.
constexpr int kLanesAcross = 4;   // Lanes of a warp along a row.
constexpr int kWarpRows = kWarpLanes / kLanesAcross * kSide;
constexpr int kWarpColumns = kLanesAcross * kSide;
constexpr int kWarpsDown = kTile / kWarpRows;
static_assert(kThreads == kWarpLanes * kWarpsDown * (kTile / kWarpColumns));

// Eight adjacent elements.
template <typename T>
struct alignas(sizeof(T) == 1 ? 8 : 16) Side {
  T values[kSide];
};

template <typename T>
__device__ Side<T> LoadWide(const T* data) {
  return *reinterpret_cast<const Side<T>*>(data);
}

// Loads `num` elements from `data` on; the rest are 0.
template <typename T>
__device__ Side<T> LoadEach(const T* data, int64_t num) {
  Side<T> side = {};
#pragma unroll
  for (int k = 0; k < kSide; ++k) {
    if (k < num) {
      side.values[k] = data[k];
    }
  }
  return side;
}

__device__ Side<float> Widened(const Side<float>& side, Format) { return side; }

__device__ Side<float> Widened(const Side<uint16_t>& side, Format format) {
  Side<float> wide = {};
#pragma unroll
  for (int k = 0; k < kSide; ++k) {
    wide.values[k] = format == Format::kBFloat16 ? FromBFloat16(side.values[k]) : FromFloat16(side.values[k]);
  }
  return wide;
}

__device__ void Store(const Side<uint8_t>& side, uint8_t* data, bool wide, int64_t num) {
  if (wide) {
    *reinterpret_cast<Side<uint8_t>*>(data) = side;
    return;
  }
#pragma unroll
  for (int k = 0; k < kSide; ++k) {
    if (k < num) {
      data[k] = side.values[k];
    }
  }
}

__device__ bool Aligned(const void* data, int bytes) { return reinterpret_cast<uintptr_t>(data) % bytes == 0; }

// Where a thread's numbers begin, in its tile and in the matrix. They may lie beyond the end of the matrix.
struct Place {
  int tile_row, tile_column;
  int64_t row_of_tiles, column_of_tiles;
  int64_t row, column;
};

__device__ Place PlaceOfThread(const CudaFp8Matrix& matrix) {
  const int64_t tiles_across = (matrix.columns + kTile - 1) / kTile;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  Place place = {};
  place.tile_row = warp % kWarpsDown * kWarpRows + lane / kLanesAcross * kSide;
  place.tile_column = warp / kWarpsDown * kWarpColumns + lane % kLanesAcross * kSide;
  place.row_of_tiles = static_cast<int64_t>(blockIdx.x) / tiles_across;
  place.column_of_tiles = static_cast<int64_t>(blockIdx.x) % tiles_across;
  place.row = place.row_of_tiles * kTile + place.tile_row;
  place.column = place.column_of_tiles * kTile + place.tile_column;
  return place;
}

struct Numbers {
  Side<float> rows[kSide];
};

// Loads the thread's numbers; they are 0 beyond the matrix. All loads are issued before the first result is used.
template <typename T>
__device__ Numbers LoadStored(const T* source, const CudaFp8Matrix& matrix, const Place& place) {
  const T* const first = source + place.row * matrix.columns + place.column;
  const bool whole = place.row + kSide <= matrix.rows && place.column + kSide <= matrix.columns;
  Side<T> stored[kSide];
  if (whole && matrix.columns % kSide == 0 && Aligned(source, 16)) {
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      stored[r] = LoadWide(first + r * matrix.columns);
    }
  } else {
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      stored[r] = LoadEach(first + r * matrix.columns, place.row + r < matrix.rows ? matrix.columns - place.column : 0);
    }
  }
  Numbers numbers = {};
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    numbers.rows[r] = Widened(stored[r], matrix.source_format);
  }
  return numbers;
}

__device__ Numbers LoadNumbers(const CudaFp8Matrix& matrix, const Place& place) {
  return matrix.source_format == Format::kFloat32
             ? LoadStored(static_cast<const float*>(matrix.source), matrix, place)
             : LoadStored(static_cast<const uint16_t*>(matrix.source), matrix, place);
}

__device__ uint32_t Amax(const Numbers& numbers) {
  uint32_t amax = 0;
#pragma unroll
  for (int i = 0; i < kSide * kSide; ++i) {
    amax = max(amax, MagnitudeBits(numbers.rows[i / kSide].values[i % kSide]));
  }
  return amax;
}

// Stores the thread's codes into an output (rows, columns), from (row, column) on; does nothing if the output is not
// requested. code_of(r, c): the code for row + r and column + c.
template <typename CodeOf>
__device__ void StoreCodes(const CudaFp8Output& output, int64_t rows, int64_t columns, int64_t row, int64_t column,
                           CodeOf code_of) {
  if (output.data == nullptr) {
    return;
  }
  const int64_t num = columns - column;
  const bool wide = num >= kSide && columns % kSide == 0 && Aligned(output.data, kSide);
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    Side<uint8_t> codes = {};
#pragma unroll
    for (int c = 0; c < kSide; ++c) {
      codes.values[c] = code_of(r, c);
    }
    if (row + r < rows) {
      Store(codes, output.data + (row + r) * columns + column, wide, num);
    }
  }
}

// StorePlain stores the thread's codes into the plain output, StoreTransposed into the transposed one. code_of(r, c):
// the code for the thread's row r and column c.
template <typename CodeOf>
__device__ void StorePlain(const CudaFp8Matrix& matrix, const Place& place, CodeOf code_of) {
  StoreCodes(matrix.plain, matrix.rows, matrix.columns, place.row, place.column, code_of);
}

template <typename CodeOf>
__device__ void StoreTransposed(const CudaFp8Matrix& matrix, const Place& place, CodeOf code_of) {
  StoreCodes(matrix.transposed, matrix.columns, matrix.rows, place.column, place.row,
             [&](int c, int r) { return code_of(r, c); });
}

// Stores both outputs with one scale.
__device__ void StoreBoth(const Numbers& numbers, float scale, const CudaFp8Matrix& matrix, const Place& place) {
  Side<uint8_t> codes[kSide];
#pragma unroll
  for (int i = 0; i < kSide * kSide; ++i) {
    codes[i / kSide].values[i % kSide] = ToFp8(numbers.rows[i / kSide].values[i % kSide] * scale, matrix.format);
  }
  const auto code_of = [&](int r, int c) { return codes[r].values[c]; };
  StorePlain(matrix, place, code_of);
  StoreTransposed(matrix, place, code_of);
}

__device__ bool IsKnown(const float* known_scale) { return known_scale != nullptr && *known_scale > 0; }

// Returns the amax (largest magnitude) of this block's chunk. A chunk consists of consecutive numbers and may begin
// within a row.
template <typename T>
__device__ uint32_t AmaxOfChunk(const T* source, const CudaFp8Matrix& matrix) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kChunkElements;
  const int64_t end = min(begin + kChunkElements, matrix.rows * matrix.columns);
  const bool aligned = Aligned(source, 16);
  constexpr int64_t kStride = int64_t{kThreads} * kSide;
  uint32_t amax = 0;
#pragma unroll 4
  for (int64_t i = begin + int64_t{threadIdx.x} * kSide; i < end; i += kStride) {
    const Side<T> stored = aligned && end - i >= kSide ? LoadWide(source + i) : LoadEach(source + i, end - i);
    const Side<float> side = Widened(stored, matrix.source_format);
#pragma unroll
    for (int k = 0; k < kSide; ++k) {
      amax = max(amax, MagnitudeBits(side.values[k]));
    }
  }
  return amax;
}

// Raises *amax to the largest magnitude of the matrix; does nothing if the scale is known.
__global__ void __launch_bounds__(kThreads) FindAmax(CudaFp8Matrix matrix, const float* known_scale, float* amax) {
  if (IsKnown(known_scale)) {
    return;
  }
  RaiseAmax(amax, MaxOverBlock(matrix.source_format == Format::kFloat32
                                   ? AmaxOfChunk(static_cast<const float*>(matrix.source), matrix)
                                   : AmaxOfChunk(static_cast<const uint16_t*>(matrix.source), matrix)));
}

// Quantizes one tile: with the known scale, or with the one that follows from *amax. With a known scale, this kernel
// also finds *amax unless it is known. InvertTensorScale then needs *amax only to see whether all numbers are finite.
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    QuantizeTensorTiles(CudaFp8Matrix matrix, const float* known_scale, float* amax, bool is_amax_known) {
  const Place place = PlaceOfThread(matrix);
  const Numbers numbers = LoadNumbers(matrix, place);
  const bool known = IsKnown(known_scale);
  const float scale = known ? *known_scale : Fp8Scale(*amax, matrix.scaling);
  if (known && !is_amax_known) {
    RaiseAmax(amax, MaxOverBlock(Amax(numbers)));
  }
  StoreBoth(numbers, scale, matrix, place);
}

// Writes the inverse scale of both outputs: NaN if the amax is not finite. Runs as one block, after all tiles.
__global__ void __launch_bounds__(kThreads)
    InvertTensorScale(CudaFp8Matrix matrix, const float* known_scale, const float* amax) {
  const float of_amax = Fp8Scale(*amax, matrix.scaling);
  const float inverse = 1.0f / (IsKnown(known_scale) && IsFinite(*amax) ? *known_scale : of_amax);
  if (threadIdx.x == 0 && matrix.plain.data != nullptr) {
    *matrix.plain.inverse_scale = inverse;
  }
  if (threadIdx.x == 0 && matrix.transposed.data != nullptr) {
    *matrix.transposed.inverse_scale = inverse;
  }
}

// The scales of a tile's rows and columns. Each follows from the largest magnitude that any thread has found in the
// row or column.
struct TileScales {
  uint32_t amax[2 * kTile];  // Amaxes of the rows, then of the columns.
  float scale[2 * kTile];
};

__device__ void TakeAmaxes(const Numbers& numbers, const Place& place, TileScales& tile) {
#pragma unroll
  for (int a = 0; a < kSide; ++a) {
    uint32_t of_row = 0;
    uint32_t of_column = 0;
#pragma unroll
    for (int b = 0; b < kSide; ++b) {
      of_row = max(of_row, MagnitudeBits(numbers.rows[a].values[b]));
      of_column = max(of_column, MagnitudeBits(numbers.rows[b].values[a]));
    }
    atomicMax(&tile.amax[place.tile_row + a], of_row);
    atomicMax(&tile.amax[kTile + place.tile_column + a], of_column);
  }
}

// Sets the scale of one row or column of the tile: thread t handles row t, or column t - 128.
__device__ void TakeScale(const CudaFp8Matrix& matrix, const Place& place, TileScales& tile) {
  const auto t = static_cast<int>(threadIdx.x);
  const float scale = Fp8Scale(std::bit_cast<float>(tile.amax[t]), matrix.scaling);
  tile.scale[t] = scale;
  const int64_t row = place.row_of_tiles * kTile + t;
  const int64_t column = place.column_of_tiles * kTile + t - kTile;
  if (t < kTile && row < matrix.rows && matrix.plain.data != nullptr) {
    matrix.plain.inverse_scale[place.column_of_tiles * matrix.rows + row] = 1.0f / scale;
  }
  if (t >= kTile && column < matrix.columns && matrix.transposed.data != nullptr) {
    matrix.transposed.inverse_scale[place.row_of_tiles * matrix.columns + column] = 1.0f / scale;
  }
}

__global__ void __launch_bounds__(kThreads, kBlocksAtOnce) QuantizeRowTiles(CudaFp8Matrix matrix) {
  static_assert(kThreads == 2 * kTile);
  __shared__ TileScales tile;
  const Place place = PlaceOfThread(matrix);
  const Numbers numbers = LoadNumbers(matrix, place);
  tile.amax[threadIdx.x] = 0;
  __syncthreads();
  TakeAmaxes(numbers, place, tile);
  __syncthreads();
  TakeScale(matrix, place, tile);
  __syncthreads();
  StorePlain(matrix, place, [&](int r, int c) {
    return ToFp8(numbers.rows[r].values[c] * tile.scale[place.tile_row + r], matrix.format);
  });
  StoreTransposed(matrix, place, [&](int r, int c) {
    return ToFp8(numbers.rows[r].values[c] * tile.scale[kTile + place.tile_column + c], matrix.format);
  });
}

__global__ void __launch_bounds__(kThreads, kBlocksAtOnce) QuantizeSquareTiles(CudaFp8Matrix matrix) {
  const Place place = PlaceOfThread(matrix);
  const Numbers numbers = LoadNumbers(matrix, place);
  const float scale = Fp8Scale(std::bit_cast<float>(MaxOverBlock(Amax(numbers))), matrix.scaling);
  StoreBoth(numbers, scale, matrix, place);
  if (threadIdx.x == 0 && matrix.plain.data != nullptr) {
    matrix.plain.inverse_scale[blockIdx.x] = 1.0f / scale;
  }
  if (threadIdx.x == 0 && matrix.transposed.data != nullptr) {
    const int64_t tiles_down = (matrix.rows + kTile - 1) / kTile;
    matrix.transposed.inverse_scale[place.column_of_tiles * tiles_down + place.row_of_tiles] = 1.0f / scale;
  }
}

int64_t NumTiles(const CudaFp8Matrix& matrix) {
  return (matrix.rows + kTile - 1) / kTile * ((matrix.columns + kTile - 1) / kTile);
}

int QuantizeTensor(const CudaFp8Matrix* matrix, const float* known_scale, float* amax, bool is_amax_known,
                   void* stream) {
  const int64_t num_chunks = is_amax_known ? 0 : NumChunks(matrix->rows * matrix->columns);
  if (const int error = Launch(FindAmax, num_chunks, stream, *matrix, known_scale, amax); error != cudaSuccess) {
    return error;
  }
  const int64_t num_tiles = NumTiles(*matrix);
  const int error = Launch(QuantizeTensorTiles, num_tiles, stream, *matrix, known_scale, amax, is_amax_known);
  const float* const found = amax;
  return error == cudaSuccess ? Launch(InvertTensorScale, 1, stream, *matrix, known_scale, found) : error;
}

int QuantizeRows(const CudaFp8Matrix* matrix, void* stream) {
  return Launch(QuantizeRowTiles, NumTiles(*matrix), stream, *matrix);
}

int QuantizeSquares(const CudaFp8Matrix* matrix, void* stream) {
  return Launch(QuantizeSquareTiles, NumTiles(*matrix), stream, *matrix);
}

}  // namespace

const CudaFp8Kernels kFp8Kernels = {
    .quantize_tensor = QuantizeTensor,
    .quantize_rows = QuantizeRows,
    .quantize_squares = QuantizeSquares,
};

}  // namespace ampd::kernels
