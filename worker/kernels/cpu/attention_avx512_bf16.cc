// Attention with AVX512-BF16. The backward pass goes over blocks of keys, with transposed scores (keys, queries). At
// the end of a block, the gradients of its keys and values are complete. The gradients of queries are added up over the
// blocks, in fp32.
//
// Everything except the table has internal linkage; step_loops.inc gives the reason.
#include "worker/kernels/cpu/bf16_products.inc"
#include "worker/kernels/cpu/instruction_sets.h"

namespace ampd::kernels {
namespace {

constexpr int64_t kBlock = 64;  // Queries or keys at a time.
constexpr float kLog2E = 1.44269504f;

int64_t RoundUp(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// 2^x for x up to about 0, accurate to one or two units in the last place; NaN stays NaN.
__m512 PowerOfTwo(__m512 x) {
  const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 rest = _mm512_sub_ps(x, whole);
  // Taylor's series of 2^rest, |rest| at most a half.
  constexpr float kTerms[] = {1.33335581e-3f, 9.61812911e-3f, 5.55041087e-2f, 2.40226507e-1f, 6.93147181e-1f, 1.0f};
  __m512 sum = _mm512_set1_ps(1.54035304e-4f);
  for (const float term : kTerms) {
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(term));
  }
  return _mm512_scalef_ps(sum, whole);
}

// A register holds the elements `begin` to `begin` + 15. Returns a mask of those that are in [from, to).
__mmask16 LanesIn(int64_t begin, int64_t from, int64_t to) {
  const auto below = [begin](int64_t end) {
    const int64_t lanes = end - begin;
    return lanes <= 0 ? 0u : lanes >= kLanes ? 0xffffu : (1u << lanes) - 1;
  };
  return static_cast<__mmask16>(below(to) & ~below(from));
}

void StoreHead(const float* sums, int64_t sums_stride, const float* factors, int64_t rows, int64_t width, Head to) {
  for (int64_t r = 0; r < rows; ++r) {
    const __m512 factor = _mm512_set1_ps(factors == nullptr ? 1.0f : factors[r]);
    for (int64_t d = 0; d < width; d += kLanes) {
      StoreHalves(to.data + r * to.stride + d, _mm512_mul_ps(_mm512_loadu_ps(sums + r * sums_stride + d), factor));
    }
  }
}

Head RowsFrom(const Head& head, int64_t row) { return {head.data + row * head.stride, head.stride}; }
Left AsLeft(const ConstHead& head, int64_t row) { return {head.data + row * head.stride, head.stride}; }

// Allocates parts of the scratch memory `memory`. If `memory` is null, only counts the bytes that would be needed.
class Scratch {
 public:
  explicit Scratch(void* memory) : memory_(static_cast<char*>(memory)) {}

  template <typename T>
  T* Take(int64_t count) {
    char* const begin = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += RoundUp(count * static_cast<int64_t>(sizeof(T)), 64);
    return reinterpret_cast<T*>(begin);
  }
  size_t used() const { return static_cast<size_t>(used_); }

 private:
  char* memory_;
  int64_t used_ = 0;
};

struct ForwardScratch {
  ForwardScratch(const AttentionShape& shape, void* memory) : scratch(memory) {
    stride = RoundUp(shape.length, kBlock);
    keys = scratch.Take<uint32_t>(shape.width / 2 * stride);
    values = scratch.Take<uint32_t>(stride / 2 * shape.width);
    scores = scratch.Take<float>(kBlock * stride);
    weights = scratch.Take<uint16_t>(kBlock * stride);
    sums = scratch.Take<float>(kBlock * shape.width);
  }

  Scratch scratch;
  int64_t stride;     // T, rounded up to whole blocks.
  uint32_t* keys;     // Transposed pairs.
  uint32_t* values;   // Paired rows.
  float* scores;      // (kBlock, stride)
  uint16_t* weights;  // (kBlock, stride), exponentials
  float* sums;        // (kBlock, D)
};

// Computes the softmax weights of one row of scores, not yet divided by their sum. The weights of the first `visible`
// scores are exponentials relative to the largest score. The other weights, up to `columns`, are 0. Returns 1 over the
// sum of the weights. Sets `log_sum` to the logarithm of the sum of the exponentials of the scores themselves.
float Exponentials(const AttentionShape& shape, const float* scores, int64_t visible, int64_t columns,
                   uint16_t* weights, float* log_sum) {
  __m512 largest = _mm512_set1_ps(-__builtin_inff());
  for (int64_t n = 0; n < visible; n += kLanes) {
    const __mmask16 lanes = LanesIn(n, 0, visible);
    largest = _mm512_mask_max_ps(largest, lanes, largest, _mm512_loadu_ps(scores + n));
  }
  const float top = _mm512_reduce_max_ps(largest);
  const __m512 factor = _mm512_set1_ps(shape.scale * kLog2E);
  const __m512 shift = _mm512_set1_ps(top * (shape.scale * kLog2E));
  __m512 sums = _mm512_setzero_ps();
  for (int64_t n = 0; n < columns; n += kLanes) {
    const __m512 power = PowerOfTwo(_mm512_fmsub_ps(_mm512_loadu_ps(scores + n), factor, shift));
    const __m512 weight = _mm512_maskz_mov_ps(LanesIn(n, 0, visible), power);
    sums = _mm512_add_ps(sums, weight);
    StoreHalves(weights + n, weight);
  }
  const float sum = _mm512_reduce_add_ps(sums);
  *log_sum = top * shape.scale + __builtin_logf(sum);
  return 1 / sum;
}

void Forward(const AttentionShape& shape, const AttentionInputs& inputs, Head result, float* log_sums, void* memory) {
  const ForwardScratch scratch(shape, memory);
  const int64_t width = shape.width;
  TransposePairs(inputs.key, shape.length, width, scratch.keys, scratch.stride);
  PairRows(inputs.value, shape.length, width, scratch.values);
  for (int64_t first = 0; first < shape.length; first += kBlock) {
    const int64_t rows = Least(kBlock, shape.length - first);
    const int64_t num_keys = shape.is_causal ? first + rows : shape.length;
    const int64_t columns = RoundUp(num_keys, kLanes);
    Multiply(AsLeft(inputs.query, first), {scratch.keys, scratch.stride}, width / 2, rows, columns,
             {scratch.scores, scratch.stride});
    float factors[kBlock];
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t visible = shape.is_causal ? first + r + 1 : shape.length;
      factors[r] = Exponentials(shape, scratch.scores + r * scratch.stride, visible, columns,
                                scratch.weights + r * scratch.stride, log_sums + first + r);
    }
    Multiply({scratch.weights, scratch.stride}, {scratch.values, width}, (num_keys + 1) / 2, rows, width,
             {scratch.sums, width});
    StoreHead(scratch.sums, width, factors, rows, width, RowsFrom(result, first));
  }
}

struct BackwardScratch {
  BackwardScratch(const AttentionShape& shape, void* memory) : scratch(memory) {
    stride = RoundUp(shape.length, kBlock);
    const int64_t words = stride / 2 * shape.width;
    queries = scratch.Take<uint32_t>(words);
    gradients = scratch.Take<uint32_t>(words);
    query_rows = scratch.Take<uint32_t>(words);
    gradient_rows = scratch.Take<uint32_t>(words);
    key_rows = scratch.Take<uint32_t>(words);
    log_sums = scratch.Take<float>(stride);
    deltas = scratch.Take<float>(stride);
    scores = scratch.Take<float>(kBlock * kBlock);
    weight_gradients = scratch.Take<float>(kBlock * kBlock);
    weights = scratch.Take<uint16_t>(kBlock * stride);
    score_gradients = scratch.Take<uint16_t>(kBlock * stride);
    score_gradient_pairs = scratch.Take<uint32_t>(kBlock / 2 * stride);
    sums = scratch.Take<float>(kBlock * shape.width);
    query_sums = scratch.Take<float>(stride * shape.width);
  }

  Scratch scratch;
  int64_t stride;                  // T, rounded up to whole blocks.
  uint32_t* queries;               // Transposed pairs.
  uint32_t* gradients;             // Transposed pairs of the result's gradient.
  uint32_t* query_rows;            // Paired rows.
  uint32_t* gradient_rows;         // Paired rows of the result's gradient.
  uint32_t* key_rows;              // Paired rows.
  float* log_sums;                 // Logarithms of the sums of exponentials, to base 2.
  float* deltas;                   // For each query: the result's gradient times the result.
  float* scores;                   // (kBlock keys, kBlock queries)
  float* weight_gradients;         // (kBlock keys, kBlock queries)
  uint16_t* weights;               // (kBlock keys, stride queries)
  uint16_t* score_gradients;       // (kBlock keys, stride queries)
  uint32_t* score_gradient_pairs;  // (kBlock / 2, stride), paired rows of score_gradients
  float* sums;                     // (kBlock keys, D)
  float* query_sums;               // (T, D)
};

void PrepareBackward(const AttentionShape& shape, const AttentionInputs& inputs, const AttentionResults& results,
                     const BackwardScratch& scratch) {
  TransposePairs(inputs.query, shape.length, shape.width, scratch.queries, scratch.stride);
  TransposePairs(results.gradient, shape.length, shape.width, scratch.gradients, scratch.stride);
  PairRows(inputs.query, shape.length, shape.width, scratch.query_rows);
  PairRows(results.gradient, shape.length, shape.width, scratch.gradient_rows);
  PairRows(inputs.key, shape.length, shape.width, scratch.key_rows);
  for (int64_t t = 0; t < shape.length; ++t) {
    __m512 sum = _mm512_setzero_ps();
    for (int64_t d = 0; d < shape.width; d += kLanes) {
      sum = _mm512_fmadd_ps(Floats(results.result.data + t * results.result.stride + d),
                            Floats(results.gradient.data + t * results.gradient.stride + d), sum);
    }
    scratch.deltas[t] = _mm512_reduce_add_ps(sum);
    scratch.log_sums[t] = results.log_sums[t] * kLog2E;
  }
  __builtin_memset(scratch.query_sums, 0, static_cast<size_t>(shape.length * shape.width) * sizeof(float));
}

// The weights and score gradients of one key for 16 queries, computed from the products in the scratch memory at
// `place`.
struct KeyLanes {
  __m512 weights, score_gradients;
};
KeyLanes LanesOf(const AttentionShape& shape, const BackwardScratch& scratch, int64_t key, int64_t query,
                 int64_t place) {
  const __mmask16 seen = LanesIn(query, shape.is_causal ? key : 0, shape.length);
  const __m512 exponent = _mm512_fmsub_ps(_mm512_loadu_ps(scratch.scores + place), _mm512_set1_ps(shape.scale * kLog2E),
                                          _mm512_maskz_loadu_ps(seen, scratch.log_sums + query));
  const __m512 weights = _mm512_maskz_mov_ps(seen, PowerOfTwo(exponent));
  const __m512 gradients = _mm512_sub_ps(_mm512_loadu_ps(scratch.weight_gradients + place),
                                         _mm512_maskz_loadu_ps(seen, scratch.deltas + query));
  const __m512 scaled = _mm512_mul_ps(_mm512_mul_ps(weights, gradients), _mm512_set1_ps(shape.scale));
  return {weights, _mm512_maskz_mov_ps(seen, scaled)};
}

// Computes the weight and the score's gradient for each pair of a key in [key, key + num_keys) and a query in
// [query, query + kBlock).
void WeighBlock(const AttentionShape& shape, const AttentionInputs& inputs, const BackwardScratch& scratch, int64_t key,
                int64_t num_keys, int64_t query) {
  Multiply(AsLeft(inputs.key, key), {scratch.queries + query, scratch.stride}, shape.width / 2, num_keys, kBlock,
           {scratch.scores, kBlock});
  Multiply(AsLeft(inputs.value, key), {scratch.gradients + query, scratch.stride}, shape.width / 2, num_keys, kBlock,
           {scratch.weight_gradients, kBlock});
  for (int64_t k = 0; k < num_keys; k += 2) {
    for (int64_t q = 0; q < kBlock; q += kLanes) {
      uint16_t* const gradients = scratch.score_gradients + k * scratch.stride + query + q;
      uint16_t* const weights = scratch.weights + k * scratch.stride + query + q;
      const KeyLanes first = LanesOf(shape, scratch, key + k, query + q, k * kBlock + q);
      StoreHalves(weights, first.weights);
      StoreHalves(gradients, first.score_gradients);
      __m512i pairs = Widen(gradients);
      if (k + 1 < num_keys) {
        const KeyLanes second = LanesOf(shape, scratch, key + k + 1, query + q, (k + 1) * kBlock + q);
        StoreHalves(weights + scratch.stride, second.weights);
        StoreHalves(gradients + scratch.stride, second.score_gradients);
        pairs = _mm512_or_si512(pairs, _mm512_slli_epi32(Widen(gradients + scratch.stride), 16));
      }
      _mm512_storeu_si512(scratch.score_gradient_pairs + k / 2 * scratch.stride + query + q, pairs);
    }
  }
}

void Backward(const AttentionShape& shape, const AttentionInputs& inputs, const AttentionResults& results,
              const AttentionGradients& gradients, void* memory) {
  const BackwardScratch scratch(shape, memory);
  const int64_t width = shape.width;
  PrepareBackward(shape, inputs, results, scratch);
  for (int64_t key = 0; key < shape.length; key += kBlock) {
    const int64_t num_keys = Least(kBlock, shape.length - key);
    const int64_t first = shape.is_causal ? key : 0;  // No query before it sees these keys.
    const int64_t num_queries = shape.length - first;
    for (int64_t query = first; query < shape.length; query += kBlock) {
      WeighBlock(shape, inputs, scratch, key, num_keys, query);
    }
    Multiply({scratch.weights + first, scratch.stride}, {scratch.gradient_rows + first / 2 * width, width},
             (num_queries + 1) / 2, num_keys, width, {scratch.sums, width});
    StoreHead(scratch.sums, width, nullptr, num_keys, width, RowsFrom(gradients.value, key));
    Multiply({scratch.score_gradients + first, scratch.stride}, {scratch.query_rows + first / 2 * width, width},
             (num_queries + 1) / 2, num_keys, width, {scratch.sums, width});
    StoreHead(scratch.sums, width, nullptr, num_keys, width, RowsFrom(gradients.key, key));
    const auto* const pairs = reinterpret_cast<const uint16_t*>(scratch.score_gradient_pairs + first);
    Multiply({pairs, /*row_stride=*/2, /*pair_stride=*/2 * scratch.stride}, {scratch.key_rows + key / 2 * width, width},
             (num_keys + 1) / 2, num_queries, width, {scratch.query_sums + first * width, width, /*adds=*/true});
  }
  StoreHead(scratch.query_sums, width, nullptr, shape.length, width, gradients.query);
}

size_t ForwardScratchBytes(const AttentionShape& shape) { return ForwardScratch(shape, nullptr).scratch.used(); }
size_t BackwardScratchBytes(const AttentionShape& shape) { return BackwardScratch(shape, nullptr).scratch.used(); }

}  // namespace

const AttentionKernels kAvx512Bf16Attention = {
    .name = "avx512_bf16",
    .width_multiple = 2 * kLanes,
    .forward_scratch_bytes = ForwardScratchBytes,
    .backward_scratch_bytes = BackwardScratchBytes,
    .forward = Forward,
    .backward = Backward,
};

}  // namespace ampd::kernels
