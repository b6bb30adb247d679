#include "worker/train/checkpoint/checkpoint_saver.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "google/protobuf/util/time_util.h"

namespace ampd::train {

absl::Status CheckpointSaver::Save(v1::Checkpoint checkpoint, CheckpointContent identity, uint64_t after_sequence,
                                   Capture capture) {
  if (captured_step_ == checkpoint.step()) {
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(writer_.Wait());  // The writer's thread still reads `snapshot_` until then.
  if (const auto newest = writer_.newest(); newest.has_value() && checkpoint.step() <= newest->step()) {
    return absl::OkStatus();
  }
  const auto begin = std::chrono::steady_clock::now();
  snapshot_ = capture(std::move(snapshot_.engine));
  captured_step_ = checkpoint.step();
  return writer_.Begin(after_sequence, [this, begin, checkpoint = std::move(checkpoint),
                                        identity = std::move(identity)] { return Write(checkpoint, identity, begin); });
}

// Runs on the checkpoint writer's thread while training continues, so it reads only `snapshot_` and data that training
// never changes.
absl::StatusOr<v1::Checkpoint> CheckpointSaver::Write(v1::Checkpoint checkpoint, CheckpointContent identity,
                                                      std::chrono::steady_clock::time_point begin) const {
  AMPD_ASSIGN_OR_RETURN(const SavedCheckpoint saved, SaveState(snapshot_, std::move(identity), store_));
  checkpoint.set_path(saved.path);
  checkpoint.set_size_bytes(saved.size_bytes);
  checkpoint.set_manifest_sha256(saved.manifest_sha256);
  checkpoint.set_state_hash(saved.state_hash);
  checkpoint.set_save_seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  *checkpoint.mutable_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(absl::Now()));
  return checkpoint;
}

absl::StatusOr<CheckpointSaver::RollBackSource> CheckpointSaver::LoadForRollBack() {
  AMPD_RETURN_IF_ERROR(writer_.Wait());
  snapshot_ = {};  // Frees the copy's memory before the checkpoint is loaded.
  std::vector<v1::Checkpoint> candidates = writer_.written();
  candidates.insert(candidates.end(), earlier_.begin(), earlier_.end());
  absl::Status damage;  // Why the newest checkpoint is unusable. Older ones may have been deleted.
  for (const v1::Checkpoint& candidate : candidates) {
    auto loaded = store_.Load(candidate.path(), candidate.manifest_sha256());
    if (loaded.ok()) {
      return RollBackSource{*std::move(loaded), candidate.path(), damage};
    }
    if (DamagedCheckpoint(loaded.status()).empty()) {
      return loaded.status();
    }
    damage.Update(loaded.status());
  }
  if (!earlier_.empty()) {
    return Error(damage.code(), "CHECKPOINT_ERROR",
                 absl::StrCat(damage.message(), "; no older checkpoint to roll back to is sound either"));
  }
  return RollBackSource{std::nullopt, "", damage};
}

}  // namespace ampd::train
