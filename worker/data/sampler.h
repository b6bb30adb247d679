#pragma once

#include <cstdint>
#include <vector>

namespace ampd::data {

// Which samples make the next training batch. Every epoch is a permutation of all samples that depends on (seed, epoch)
// alone; what is left at its end and does not fill a batch is dropped, unless there are fewer samples than a batch
// holds: then a batch is the whole epoch. The cursor is all there is to checkpoint. Thread-compatible.
class Sampler {
 public:
  struct Options {
    int64_t num_samples = 0;
    int64_t batch_size = 0;
    uint64_t seed = 0;
    bool keep_order = false;  // every epoch in the order of the file
  };

  // The place of the next batch: `position` samples of `epoch` have been given out.
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
