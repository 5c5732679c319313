// One rank's part of a save: writes the pieces it owns into its file of the tag's temporary
// directory and ends with a vote. Nothing it does makes the tag loadable; that is
// checkpoint/commit.h.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/block_file.h"
#include "checkpoint/format.h"
#include "core/device/host_copy.h"
#include "core/device/tensor.h"
#include "core/status/error.h"

namespace ds {

struct Piece {
  std::string name;    // "<parameter name>/<slot>": "lm_head.weight/exp_avg"
  Shape global_shape;  // of the whole tensor
  Region region;
  Tensor data;  // region.numel() elements
  // Each is a floating number that is finite, also when it is rounded to this type; nothing: they
  // may be anything.
  std::optional<DType> finite_as{};
};

// A number that must not get into a checkpoint: it is not finite.
class BadPiece : public ValidationError {
 public:
  using ValidationError::ValidationError;
};

// SaveTarget says where one rank saves.
struct SaveTarget {
  std::string root;
  std::string tag;
  int64_t epoch = 0;
  int rank = 0;
};

// Confined to one thread. If it is destroyed without finish() its file is removed.
class CheckpointWriter {
 public:
  // `data_bytes` is what the pieces will amount to (a lower bound): DiskFull with need and free
  // bytes if the storage cannot hold it, before anything is written. UsageError for a bad tag.
  CheckpointWriter(FileSystem& file_system, SaveTarget target, int64_t data_bytes);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;  // owns the file
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // The data, which is on the CPU, is copied (or on disk) when the call returns. IoError if the
  // disk failed, now or earlier; BadPiece, then the writer is of no more use.
  void put(const Piece& piece);
  // The same for data wherever it is, after what the stream of `through` was given before.
  void put(const Piece& piece, HostCopy& through);
  // A named text, small: JSON of the schedule, the scaler, random states. Each name once per rank.
  void put_state(const std::string& name, std::string_view json);
  // Makes the file durable. Only then may the vote be sent.
  FileVote finish();

 private:
  void remove_file() noexcept;
  void begin_piece(const Piece& piece);
  void append(const Tensor& data);
  static void check(const Piece& piece, int64_t first, const Tensor& data);

  FileSystem& file_system_;
  std::string path_;
  FileIndex index_;
  std::unique_ptr<BlockFileWriter> file_;
};

}  // namespace ds
