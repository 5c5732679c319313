// Reading a committed tag from any layout into any other: a rank asks for the regions it needs and
// reads the blocks that cover them, each verified before its bytes are used.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/block_file.h"
#include "checkpoint/format.h"
#include "core/device/host_copy.h"
#include "core/device/tensor.h"

namespace ds {

// Confined to one thread; ranks each open their own.
class CheckpointReader {
 public:
  // Manifest, lengths, trailers and indexes are checked now, data when read. ValidationError naming
  // file and defect; InputMissing if there is no such tag, or if each host keeps its own files and
  // not all of them are here; UsageError for a bad tag name.
  static CheckpointReader open(FileSystem& file_system, const std::string& root,
                               const std::string& tag);
  // The same for a directory under any name.
  static CheckpointReader open_directory(FileSystem& file_system, const std::string& directory);

  const Manifest& manifest() const { return manifest_; }

  struct TensorInfo {
    DType dtype;
    Shape shape;
  };
  std::vector<std::string> names() const;  // of tensors, "<parameter>/<slot>", sorted
  bool contains(const std::string& name) const { return tensors_.contains(name); }
  TensorInfo info(const std::string& name) const;  // ValidationError for an unknown name

  // Fills `into` (CPU, the stored dtype, region.numel() elements) with a region of a tensor.
  // Where pieces overlap, each element comes from the first rank that holds it. ValidationError if
  // no piece covers an element, before anything is read, or naming file, offset and block if the
  // data is corrupt; then `into` must not be used.
  void get(const std::string& name, const Region& region, Tensor& into);
  // The same into a tensor wherever it is, as work of the stream of `through`.
  void get(const std::string& name, const Region& region, Tensor& into, HostCopy& through);
  // Whose files get() would read for it.
  std::set<int> ranks_holding(const std::string& name, const Region& region) const;

  // A text put by any rank (the lowest that put it); ValidationError for an unknown name.
  const std::string& state(const std::string& name) const;
  bool has_state(const std::string& name) const { return states_.contains(name); }

  void verify();  // reads everything; ValidationError naming the first corrupt block

 private:
  struct Source {
    size_t file;
    size_t piece;  // in the file's index
  };
  struct SourceRun {
    int64_t first, numel;  // elements of the flattened tensor
    size_t file;
    int64_t offset;  // of the first byte in the file
  };
  struct Copy {
    size_t file;
    int64_t offset, bytes;  // in the file
    int64_t target;         // of the first byte in the destination
  };
  void add_file(BlockFileReader file);
  std::vector<SourceRun> source_runs(const std::string& name) const;
  static std::vector<SourceRun> first_by_rank(std::vector<SourceRun> runs, int64_t item);
  std::vector<Copy> copies_for(const std::string& name, const std::vector<Run>& wanted) const;
  std::vector<Copy> copies_into(const std::string& name, const Region& region,
                                const Tensor& into) const;
  void read_part(const std::vector<Copy>& copies, int64_t first_byte, Tensor& part);

  std::string directory_;
  Manifest manifest_;
  std::vector<BlockFileReader> files_;
  std::map<std::string, std::vector<Source>> tensors_;
  std::map<std::string, std::string> states_;
  BlockCache cache_;
};

}  // namespace ds
