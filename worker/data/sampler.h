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
class Sampler {
 public:
  struct Options {
    int64_t num_samples = 0;
    int64_t batch_size = 0;
    uint64_t seed = 0;
    bool keep_order = false;  // every epoch in the order of the file
    LastBatch last_batch = LastBatch::kDrop;

    // Of samples, in every batch: batch_size, or all that there are. REQUIRES: as the constructor.
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

  // REQUIRES: num_samples and batch_size are positive.
  explicit Sampler(const Options& options);

  // Indices of the next batch.
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
