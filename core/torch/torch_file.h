// A file of torch.save (.pt, .bin, .ckpt), read while executing nothing: a zip since PyTorch 1.6,
// and the older stream of pickles. The file is mapped, so that tensors are read where they lie.
// Names that are not on the list of core/torch/allowed_names.h are refused with their place.
// Values, texts and spans live as long as the TorchFile. Reading is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/torch/value.h"

namespace ds {

struct TorchFileParts;

class TorchFile {
 public:
  // InputMissing without the file. DataError for all that is wrong in it: names the file, the byte
  // of the pickle, and the name of a class or function that is refused.
  static TorchFile open(const std::string& path);
  // The same of bytes that outlive the object; `path` is their name in messages.
  static TorchFile of_bytes(const std::string& path, std::span<const std::byte> bytes);

  TorchFile(TorchFile&&) noexcept;
  TorchFile& operator=(TorchFile&&) noexcept;
  TorchFile(const TorchFile&) = delete;  // values point into the one
  TorchFile& operator=(const TorchFile&) = delete;
  ~TorchFile();

  const std::string& path() const;
  const TorchValue& root() const;  // what torch.load would return

  // All bytes of a storage of this file, in place. Whoever asks first compares the checksum that a
  // zip has of them, and so do the readers of tensors below: DataError where they are damaged.
  std::span<const std::byte> storage_bytes(const TorchStorage& storage) const;
  // The place of the first of them, from the start of the file; -1 if the file has them deflated.
  int64_t storage_offset(const TorchStorage& storage) const;
  // The elements of a contiguous tensor, in place; InternalError for another.
  std::span<const std::byte> tensor_bytes(const TorchTensor& tensor) const;
  // Elements [begin, begin + into.size() / dtype.size) in row-major order, of any tensor.
  void copy(const TorchTensor& tensor, int64_t begin, std::span<std::byte> into) const;

 private:
  explicit TorchFile(std::unique_ptr<TorchFileParts> parts);
  std::unique_ptr<TorchFileParts> parts_;
};

}  // namespace ds
