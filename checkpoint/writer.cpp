#include "checkpoint/writer.h"

#include <cmath>

#include "checkpoint/commit.h"
#include "checkpoint/finite.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"

namespace ds {
namespace {

// Index, trailer and padding; generous, it only serves the check of free space.
constexpr int64_t kOverheadBytes = int64_t{1} << 20;

int64_t bytes_to_multiple(int64_t offset, int64_t of) { return (of - offset % of) % of; }

}  // namespace

CheckpointWriter::CheckpointWriter(FileSystem& file_system, SaveTarget target, int64_t data_bytes)
    : file_system_(file_system) {
  check_tag(target.tag);
  const std::string directory = temporary_directory(target.root, target.tag, target.epoch);
  path_ = join_path(directory, pieces_file_name(target.rank));
  index_.tag = std::move(target.tag);
  index_.epoch = target.epoch;
  index_.rank = target.rank;
  file_system_.make_directories(target.root);
  const int64_t need = data_bytes + kOverheadBytes;
  const int64_t free = file_system_.free_bytes(target.root);
  if (free < need) {
    throw DiskFull(
        fmt::format("save {}: need={} free={} bytes in {}", index_.tag, need, free, target.root));
  }
  file_system_.make_directories(directory);
  if (file_system_.exists(path_)) file_system_.remove(path_);  // of an attempt that failed
  DS_FAILPOINT("ckpt.before_create");
  file_ = std::make_unique<BlockFileWriter>(file_system_, path_);
  DS_FAILPOINT("ckpt.created");
}

CheckpointWriter::~CheckpointWriter() {
  if (file_ == nullptr) return;
  file_.reset();
  remove_file();
}

void CheckpointWriter::remove_file() noexcept {
  try {
    if (file_system_.exists(path_)) file_system_.remove(path_);
  } catch (const std::exception&) {  // the failure that led here is the one to report
    return;
  }
}

void CheckpointWriter::put(const Piece& piece) {
  DS_CHECK(piece.data.device() == Device::cpu(),
           "checkpoint: piece '{}' is on {}, expected on the CPU", piece.name,
           piece.data.device().to_string());
  begin_piece(piece);
  check(piece, 0, piece.data);
  append(piece.data);
}

void CheckpointWriter::put(const Piece& piece, HostCopy& through) {
  begin_piece(piece);
  through.down(piece.data, [&](int64_t first, const Tensor& part) {
    check(piece, first, part);
    append(part);
  });
}

void CheckpointWriter::begin_piece(const Piece& piece) {
  DS_CHECK(file_ != nullptr, "checkpoint: put '{}' after finish()", piece.name);
  require_inside(piece.region, piece.global_shape);
  DS_CHECK(piece.data.numel() == piece.region.numel(),
           "checkpoint: piece '{}' has {} elements, expected {}", piece.name, piece.data.numel(),
           piece.region.numel());
  file_->append_zeros(bytes_to_multiple(file_->offset(), kPieceAlignment));
  index_.pieces.push_back(
      {piece.name, piece.data.dtype(), piece.global_shape, piece.region, file_->offset()});
}

void CheckpointWriter::check(const Piece& piece, int64_t first, const Tensor& data) {
  if (!piece.finite_as) return;
  const std::optional<BadElement> bad = first_not_finite(data, *piece.finite_as);
  if (!bad) return;
  throw BadPiece(fmt::format("{}: element {} of the {} that this rank has is {}{}", piece.name,
                             first + bad->index, piece.data.numel(), bad->value,
                             std::isfinite(bad->value)
                                 ? fmt::format(", too large for {}", name_of(*piece.finite_as))
                                 : ""));
}

void CheckpointWriter::append(const Tensor& data) {
  if (data.numel() == 0) return;
  file_->append({static_cast<const std::byte*>(data.raw()), data.bytes()});
}

void CheckpointWriter::put_state(const std::string& name, std::string_view json) {
  const bool added = index_.states.emplace(name, json).second;
  DS_CHECK(added, "checkpoint: state '{}' is put twice", name);
}

FileVote CheckpointWriter::finish() {
  DS_CHECK(file_ != nullptr, "checkpoint: finish() twice");
  index_.data_bytes = file_->offset();
  index_.blocks = file_->end_data();
  std::string text = to_text(index_);
  const int64_t end = index_.data_bytes + narrow<int64_t>(text.size()) + kTrailerBytes;
  text.append(to_size(bytes_to_multiple(end, kUncachedAlignment)), ' ');
  const auto bytes = std::as_bytes(std::span(text));
  const Trailer trailer{index_.data_bytes, narrow<int64_t>(text.size()), digest_of(bytes)};
  file_->append(bytes);
  file_->append(to_bytes(trailer));
  const FileVote vote{pieces_file_name(index_.rank), index_.rank, index_.epoch, file_->offset(),
                      trailer.index_digest};
  DS_FAILPOINT("ckpt.index_written");
  file_->finish();
  DS_FAILPOINT("ckpt.after_fsync");
  file_system_.sync_directory(parent_directory(path_));
  DS_FAILPOINT("ckpt.directory_synced");
  file_.reset();
  return vote;
}

}  // namespace ds
