// TensorIo: tensors to and from open files, under way while the caller computes. It adds to AsyncIo
// what tensors need: a device's tensors pass through pinned memory, unless the engine moves them
// itself (GPUDirect Storage); what is under way keeps its tensor and its file; and what was moved
// can be compared with the file once more.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/device/tensor.h"
#include "core/memory/resource.h"
#include "offload/async_io/async_io.h"

namespace ds {

enum class Validate { kNo, kYes };  // compare with the file, read once more by plain calls

// A flat tensor of the host whose pages stay in memory. OutOfMemory where the limit on locked
// memory is too low.
Tensor locked_tensor(int64_t numel, DType dtype);

// Confined to one thread.
class TensorIo {
 public:
  // Who moves the bytes of tensors on a device.
  enum class DevicePath {
    kStaged,  // the host: through pinned memory, by `stream`
    kDirect,  // the engine: whole pages only, and tensors of the host are refused
  };
  struct Options {
    DevicePath path = DevicePath::kStaged;
    Stream* stream = nullptr;  // of the tensors' device; null: the host's tensors alone
  };

  TensorIo(std::unique_ptr<AsyncIo> io, const Options& options);
  ~TensorIo();                         // waits for what is under way; its errors go to the log
  TensorIo(const TensorIo&) = delete;  // owns what is under way
  TensorIo& operator=(const TensorIo&) = delete;

  // Begins. The tensor may not be read (written) before wait(), nor what it is made of be written.
  // Of a tensor on a device, what the stream was given before is part of what is written.
  void begin_read(const Tensor& tensor, std::shared_ptr<IoFile> file, int64_t offset,
                  Validate validate = Validate::kNo);
  void begin_write(const Tensor& tensor, std::shared_ptr<IoFile> file, int64_t offset,
                   Validate validate = Validate::kNo);

  // Waits for all that were begun since the last wait, and says how many. Then throws the error of
  // the first that failed: what AsyncIo throws, or ValidationError. None is under way afterwards.
  int wait();

  // A tensor that is used often, and its end; false where it is none of these.
  void pin(const Tensor& tensor);
  bool unpin(const Tensor& tensor);

  AsyncIo& io() { return *io_; }
  Stream* stream() const { return options_.stream; }

 private:
  struct Operation;
  struct Staging;
  struct Pinned;

  std::unique_ptr<Operation> prepare(IoKind kind, const Tensor& tensor,
                                     std::shared_ptr<IoFile> file, int64_t offset,
                                     Validate validate);
  void begin(std::unique_ptr<Operation> begun);
  std::span<std::byte> reachable(Operation& operation);
  void check(const Tensor& tensor, const IoFile& file, int64_t offset) const;
  void finish(Operation& operation);
  void compare(const Operation& operation) const;
  std::unique_ptr<Staging> take_staging(size_t bytes);

  const Options options_;
  std::vector<std::unique_ptr<Staging>> free_staging_;
  std::vector<std::unique_ptr<Operation>> late_;  // the kernel may still use their memory
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<Tensor> pinned_tensors_;
  std::unique_ptr<AsyncIo> io_;
  std::vector<Pinned> pinned_;
};

}  // namespace ds
