// Reading and writing safetensors, the file format of Hugging Face weights: u64 little-endian
// length of a JSON header, the header ({name: {dtype, shape, data_offsets}}, offsets relative to
// the header's end), then the raw row-major data. Files are hostile until proved otherwise: every
// offset, shape and length is checked against the file before anything is allocated by it. Nothing
// here knows model names.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "core/values/dtype.h"
#include "core/values/shape.h"

namespace ds {

struct SafetensorsInfo {
  std::string dtype_name;             // as in the file: "F32", "BF16", "BOOL", ...
  std::optional<DType> stored_dtype;  // empty for types that tensors of ours cannot have
  Shape shape;
  int64_t offset = 0;  // of the first byte, from the start of the file
  int64_t bytes = 0;
  DType dtype() const;  // Unsupported where stored_dtype is empty
};

// One file, open. Reading is thread-safe.
class SafetensorsFile {
 public:
  // InputMissing without the file; DataError naming file and defect unless the data is covered
  // exactly, without gaps, overlaps or a tail, by tensors with distinct names and matching shapes.
  static SafetensorsFile open(FileSystem& file_system, const std::string& path);

  std::vector<std::string> names() const;  // sorted
  bool contains(const std::string& name) const { return entries_.contains(name); }
  const SafetensorsInfo& info(const std::string& name) const;  // DataError for an unknown name
  void read(const std::string& name, std::span<std::byte> into) const;  // `into` has info().bytes
  // Part of a tensor: `into` is filled from byte `offset` of its data.
  void read_part(const std::string& name, int64_t offset, std::span<std::byte> into) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<File> file_;
  std::map<std::string, SafetensorsInfo> entries_;
  std::map<std::string, std::string> metadata_;
};

// The weights of a Hugging Face folder: model.safetensors, or the shards that
// model.safetensors.index.json lists. Also takes the path of one .safetensors file.
class SafetensorsFolder {
 public:
  static SafetensorsFolder open(FileSystem& file_system, const std::string& path);

  std::vector<std::string> names() const;  // sorted
  bool contains(const std::string& name) const { return file_of_.contains(name); }
  const SafetensorsInfo& info(const std::string& name) const { return file(name).info(name); }
  void read(const std::string& name, std::span<std::byte> into) const {
    file(name).read(name, into);
  }
  void read_part(const std::string& name, int64_t offset, std::span<std::byte> into) const {
    file(name).read_part(name, offset, into);
  }
  const SafetensorsFile& file(const std::string& name) const;  // DataError for an unknown name

 private:
  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> file_of_;  // name -> index in files_
};

// The index of a folder with several files of weights: tensor name -> file, a plain name. DataError
// for anything else.
std::map<std::string, std::string> read_weight_map(FileSystem& file_system,
                                                   const std::string& path);

struct SafetensorsTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::span<const std::byte> data = {};  // not needed by SafetensorsWriter
};

// Writes one file tensor by tensor, so that no more than one needs to be in memory. The file
// appears under its name, durable, at finish(); before that, and after any failure, there is none.
class SafetensorsWriter {
 public:
  SafetensorsWriter(FileSystem& file_system, std::string path,
                    std::span<const SafetensorsTensor> tensors);
  SafetensorsWriter(const SafetensorsWriter&) = delete;  // owns the temporary file
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();  // removes the temporary file unless finished

  void write(const std::string& name, std::span<const std::byte> data);  // any order, each once
  void finish();

 private:
  struct Slot {
    int64_t offset, bytes;
    enum class State { kMissing, kWritten } state;
  };
  FileSystem& file_system_;
  std::string path_, temporary_path_;
  std::unique_ptr<File> file_;
  std::map<std::string, Slot> slots_;
};

// The whole file at once; {"format": "pt"} as its metadata, header padded to 8 bytes with spaces,
// tensors ordered by descending element size, then name, so that each is aligned.
void write_safetensors(FileSystem& file_system, const std::string& path,
                       std::span<const SafetensorsTensor> tensors);

}  // namespace ds
