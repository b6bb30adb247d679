#pragma once

#include <cstdint>
#include <vector>

namespace ampd::data {

// How to treat the samples at the end of an epoch that do not fill a batch.
enum class LastBatch {
  kDrop,  // Omit these samples. If the data has fewer samples than batch_size, each batch is all of them.
  kPad,   // Fill the batch with samples from the beginning of the same epoch, repeatedly if necessary.
};

// Decides which samples make the next training batch. Every epoch is a permutation of all samples that depends on
// (seed, epoch) alone, cut into batches of one size. The cursor is the sampler's only state that a checkpoint must
// contain. Thread-compatible.
//
// If several ranks take a step together, each has a sampler that differs in `rank` alone. They divide the batch that a
// single rank would get into num_ranks contiguous parts, and rank r takes part r. So the number of ranks does not
// affect what is trained on. The parts are equal, with one exception: with kDrop and fewer samples than batch_size, the
// batch has all samples. In that case some parts may have one sample more than others, and ranks beyond the number of
// samples have none. Cursors count the samples of all ranks and are equal on all of them, so a run can resume with any
// number of ranks that divides batch_size.
//
//   10 samples in batches of 4, kPad, in order     rank 0 of 2    rank 1 of 2    cursors afterwards
//   0 1 2 3                                        0 1            2 3            {0, 4}
//   4 5 6 7                                        4 5            6 7            {0, 8}
//   8 9 0 1                                        8 9            0 1            {0, 10}
class Sampler {
 public:
  struct Options {
    int64_t num_samples = 0;
    int64_t batch_size = 0;  // Batch size of all ranks together.
    uint64_t seed = 0;
    bool keep_order = false;  // Keep every epoch in the order of the file.
    LastBatch last_batch = LastBatch::kDrop;
    int64_t num_ranks = 1;
    int64_t rank = 0;

    // Number of samples in a batch of all ranks together: batch_size or, with kDrop, the number of all samples if that
    // is smaller. REQUIRES: the options meet the requirements of the constructor.
    int64_t num_in_batch() const;
    // Number of batches in an epoch. REQUIRES: the options meet the requirements of the constructor.
    int64_t num_batches() const;
  };

  // The position at which the next batch begins: after `position` samples of the permutation of epoch `epoch`. Samples
  // that a padded batch repeats are not counted.
  struct Cursor {
    int64_t epoch = 0;
    int64_t position = 0;
    friend bool operator==(const Cursor&, const Cursor&) = default;
  };

  // REQUIRES: num_samples, batch_size and num_ranks are positive, num_ranks divides batch_size, and rank is in [0,
  // num_ranks).
  explicit Sampler(const Options& options);

  // Indices of this rank's part of the next batch.
  std::vector<int64_t> Next();

  const Cursor& cursor() const { return cursor_; }

  // Whether a run with these options can reach `cursor`.
  static bool CanBeAt(const Options& options, const Cursor& cursor);

  // Continues at `cursor`. Returns false, and changes nothing, if the run can't reach it.
  bool Seek(const Cursor& cursor);

 private:
  void Shuffle();

  Options options_;
  Cursor cursor_;
  std::vector<int64_t> order_;
};

}  // namespace ampd::data
