#pragma once

#include <cstdint>
#include <vector>

namespace ampd::data {

// What becomes of the samples that are left at an epoch's end and do not fill a batch.
enum class LastBatch {
  kDrop,  // the epoch ends without them; of fewer samples than a batch has, each batch is all of them
  kPad,   // they make a batch with samples from the beginning of the same epoch, over and over where those are few
};

// Which samples make the next training batch. Every epoch is a permutation of all samples that depends on (seed, epoch)
// alone, cut into batches of one size. The cursor is all there is to checkpoint. Thread-compatible.
//
// Where several ranks take a step together, each has a sampler that differs in `rank` alone. A batch is the one that a
// single rank would take, and rank r takes the r-th of num_ranks contiguous parts of it: what is trained on does not
// depend on how many ranks there are. Parts are equal, except of a batch that is all samples where those are fewer than
// batch_size (kDrop): the first ranks have one more where they must, and ranks beyond the number of samples have none.
// Cursors count the samples of all ranks and are equal on all of them, so that a run goes on with any number of ranks
// that divides batch_size.
//
//   10 samples in batches of 4, kPad, in order     rank 0 of 2    rank 1 of 2    cursors afterwards
//   0 1 2 3                                        0 1            2 3            {0, 4}
//   4 5 6 7                                        4 5            6 7            {0, 8}
//   8 9 0 1                                        8 9            0 1            {0, 10}
class Sampler {
 public:
  struct Options {
    int64_t num_samples = 0;
    int64_t batch_size = 0;  // of all ranks together
    uint64_t seed = 0;
    bool keep_order = false;  // every epoch in the order of the file
    LastBatch last_batch = LastBatch::kDrop;
    int64_t num_ranks = 1;
    int64_t rank = 0;

    // Of samples, in every batch of all ranks: batch_size, or all that there are. REQUIRES: as the constructor.
    int64_t num_in_batch() const;
    // Of an epoch; REQUIRES: as the constructor.
    int64_t num_batches() const;
  };

  // The place of the next batch: `position` samples of `epoch`'s permutation have been given out, those not counted
  // that a padded batch has again.
  struct Cursor {
    int64_t epoch = 0;
    int64_t position = 0;
    friend bool operator==(const Cursor&, const Cursor&) = default;
  };

  // REQUIRES: num_samples, batch_size and num_ranks are positive, num_ranks divides batch_size, and rank is in
  // [0, num_ranks).
  explicit Sampler(const Options& options);

  // Indices of the rank's part of the next batch.
  std::vector<int64_t> Next();

  const Cursor& cursor() const { return cursor_; }

  // Whether a run with these options can come to `cursor`.
  static bool CanBeAt(const Options& options, const Cursor& cursor);

  // Goes on at `cursor`. False, changing nothing, when it can't be there.
  bool Seek(const Cursor& cursor);

 private:
  void Shuffle();

  Options options_;
  Cursor cursor_;
  std::vector<int64_t> order_;
};

}  // namespace ampd::data
